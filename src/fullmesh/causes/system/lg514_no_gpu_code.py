"""torch, or an extension, has no code for this GPU

The program has no code for the architecture of this node's GPU: torch's wheel (or an extension that
was built elsewhere) is older than the GPU, or the GPU is older than the wheel still serves.

**Where:** the Python environment of the node of this log

**Prove:** python -c 'import torch; print(torch.cuda.get_device_capability(),
torch.cuda.get_arch_list())'

**Fix:** A torch whose wheel has the architecture (torch_runtime_accelerator chooses the CUDA), the
same on all nodes; build extensions with TORCH_CUDA_ARCH_LIST.

**Source:** read: CUDA's cudaErrorNoKernelImageForDevice; facebookresearch/detectron2#512
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-514",
    __doc__,
    looks=("RuntimeError: CUDA error: no kernel image is available for execution on the device",),
    patterns=(Pattern("no kernel image is available for execution"),),
    weight=92,
)
