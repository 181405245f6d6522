"""A library of CUDA (cuDNN or cuBLAS) cannot start on a GPU

A library of CUDA could not start on the GPU ({detail}). Too little GPU memory is left for it (JAX takes
most of it at its start), the library is missing, or its version does not fit the program or the driver.

**Place:** the node of this log

**Prove:** on that node, run `nvidia-smi`, and in the job's environment: python -m pip list | grep -i
-E 'nvidia|jax|torch|tensorflow'

**Fix:** End other processes on the GPU, or set XLA_PYTHON_CLIENT_MEM_FRACTION to a smaller share.
Install the version of cuDNN that the program was built for, and remove other versions from
LD_LIBRARY_PATH.

**Source:** jax-ml/jax#16078, stat-ml/TTDE#4, read: XLA's cuda_dnn.cc and cuda_blas.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-545",
    __doc__,
    examples=(
        (
            "2023-05-20 20:06:28.373077: E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:439] Could not "
            "create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR"
        ),
    ),
    patterns=(
        Pattern(
            "ould not create cudnn handle", r"(?P<detail>Could not create cudnn handle: \w{3,60})"
        ),
        Pattern(
            "ailed to create cublas handle",
            r"(?P<detail>failed to create cublas handle: [\w ]{3,80})",
        ),
        Pattern(
            "DNN library initialization failed", r"(?P<detail>DNN library initialization failed)"
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=62,
    recorded=(
        RecordedLog(
            "another version of cuDNN",
            (
                "E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:454] Loaded runtime CuDNN library: 8.5.0 "
                "but source was compiled with: 8.6.0.\n"
                "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed. "
                "Look at the errors above for more details."
            ),
            heads=("LG-536",),
            folded=("LG-545",),
        ),
    ),
)
