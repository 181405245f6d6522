"""The NVIDIA driver is missing or does not match

CUDA cannot work on this node: {detail}.

**Place:** the node of this log

**Prove:** on that node, compare `nvidia-smi` with python -c 'import torch;
print(torch.version.cuda)'

**Fix:** Install a driver that supports torch's CUDA version, the same on all nodes.

**Source:** read: CUDA runtime's messages
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-510",
    __doc__,
    examples=(
        "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
    ),
    patterns=(
        Pattern(
            "driver version is insufficient",
            r"(?P<detail>CUDA driver version is insufficient for CUDA runtime version)",
        ),
        Pattern("Found no NVIDIA driver", r"(?P<detail>Found no NVIDIA driver)"),
        Pattern(
            "NVIDIA driver on your system is too old",
            r"(?P<detail>The NVIDIA driver on your system is too old)",
        ),
        Pattern(
            "Minimum requirement is",
            r"(?P<detail>CUDA Driver version found is \d{1,6})\. Minimum requirement is",
        ),
        Pattern(
            "unsatisfied condition: cuda",
            r"(?P<detail>unsatisfied condition: cuda ?>= ?[\d.]{1,8})",
        ),
        Pattern(
            "forward compatibility was attempted",
            r"(?P<detail>forward compatibility was attempted on non supported HW)",
        ),
        Pattern(
            "compiled with an unsupported toolchain",
            r"(?P<detail>PTX was compiled with an unsupported toolchain)",
        ),
        Pattern(
            "supported in the installed CUDA driver",
            r"(?P<detail>API call is not supported in the installed CUDA driver)",
        ),
        Pattern(
            "unsupported display driver / cuda driver",
            r"(?P<detail>unsupported display driver / cuda driver combination)",
        ),
    ),
    explains=(Explains(("LG-201", "LG-210")),),
    survivable=True,
    weight=91,
)
