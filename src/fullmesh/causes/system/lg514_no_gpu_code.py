"""torch, or an extension, has no code for this GPU

The program has no code for the architecture of this node's GPU. Either torch's wheel (or an
extension that was built on another machine) is older than the GPU, or the wheel no longer supports
such an old GPU.

**Place:** the Python environment of the node of this log

**Prove:** python -c 'import torch; print(torch.cuda.get_device_capability(),
torch.cuda.get_arch_list())'

**Fix:** Install a torch whose wheel supports the architecture (torch_runtime_accelerator chooses
the CUDA version), the same on all nodes. Build extensions with TORCH_CUDA_ARCH_LIST.
If Triton's ptxas does not know the GPU, set TRITON_PTXAS_PATH to that of a CUDA toolkit that does.

**Source:** read: CUDA's cudaErrorNoKernelImageForDevice, facebookresearch/detectron2#512
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-514",
    __doc__,
    examples=(
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    ),
    patterns=(
        Pattern("no kernel image is available for execution"),
        Pattern("hipErrorNoBinaryForGpu"),
        # Triton's own ptxas
        Pattern("option 'gpu-name'", r"ptxas\S{0,20} fatal +: Value '\w{3,12}' is not defined"),
        Pattern("TensileLibrary", r"rocBLAS error: Cannot read \S{1,200}TensileLibrary"),
        Pattern("invalid device function", r"(?:CUDA|HIP) error: invalid device function"),
        Pattern(
            "is not compatible with the current PyTorch",
            r"with CUDA capability sm_\d{2,3} is not compatible with the current PyTorch installation",
        ),
        Pattern("CUDA_ERROR_NO_BINARY_FOR_GPU"),
    ),
    weight=92,
)
