"""An extension cannot be compiled or linked

The code of an extension or kernel module could not be built on this node ({detail}). A library that
it needs is missing or was built without the part that it calls, the CUDA toolkit does not fit torch
or the GPU, or the driver does not know this kernel yet.

**Place:** the image or environment of the node of this log

**Prove:** read the first error of the compiler above that line, and compare `nvcc --version` with
python -c 'import torch; print(torch.version.cuda, torch.cuda.get_arch_list())'

**Fix:** Install the library with the part that the message names (NVSHMEM: with IBGDA), a CUDA
toolkit of torch's version that knows the GPU, a wheel of the extension that is already built, or a
driver that knows this kernel.

**Source:** deepseek-ai/DeepEP#55, read: torch's cpp_extension.py, nvcc, ld and the kernel's modpost
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-541",
    __doc__,
    examples=(
        "nvlink error   : Undefined reference to 'nvshmemi_ibgda_device_state_d' in '/b/internode_ll.o'",
        "/usr/bin/ld: train.o: undefined reference to `MPI_Init'",
        "nvcc fatal   : Unsupported gpu architecture 'compute_120'",
        "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_unlock_strict'",
        "RuntimeError: Error building extension 'fused_adam'",
    ),
    patterns=(
        Pattern("nvlink error", r"nvlink error +: (?P<detail>[^\n]{5,120})"),
        Pattern("ptxas fatal", r"ptxas fatal +: (?P<detail>(?!Value ')[^\n]{5,100})"),
        Pattern("collect2: error", r"collect2: error: (?P<detail>ld returned \d{1,3} exit status)"),
        Pattern("defined reference to", r"(?P<detail>undefined reference to [`'][^\n']{1,100}')"),
        Pattern("ERROR: modpost: ", r"ERROR: modpost: (?P<detail>[^\n]{5,120})"),
        Pattern("nvcc fatal", r"nvcc fatal +: (?P<detail>[^\n]{5,100})"),
        Pattern("Error building extension", r"(?P<detail>Error building extension '[^']{1,60}')"),
        Pattern("Error compiling objects", r"(?P<detail>Error compiling objects for extension)"),
        Pattern("ninja: build stopped", r"(?P<detail>ninja: build stopped: [^\n]{5,60})"),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    survivable=True,
    weight=79,
)
