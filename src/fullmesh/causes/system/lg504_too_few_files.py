"""A process ran out of file descriptors

A process reached its limit of open files (Too many open files). Each rank needs a socket per peer
and group.

**Place:** the node of this log, in the job's unit or container

**Prove:** in the job's environment: ulimit -n, or run ./fullmesh verify -i INVENTORY (VC-105)

**Fix:** Raise kernel_tuning_nofile, and LimitNOFILE in the unit. For DataLoaders:
torch.multiprocessing.set_sharing_strategy('file_system').

**Source:** measured: 24 descriptors gave '9/16 clients joined' and not this message,
NVIDIA/nccl#550, pytorch/pytorch#973
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-504",
    __doc__,
    examples=("OSError: [Errno 24] Too many open files: '/dev/null'",),
    patterns=(
        Pattern("Too many open files"),
        Pattern("too many open files"),
        # a DataLoader's worker could not send a descriptor
        Pattern("items of ancdata", r"received 0 items of ancdata"),
    ),
    explains=(Explains(("LG-201", "LG-210")),),
    weight=88,
    recorded=(
        RecordedLog(
            "nofile",
            (
                "OSError: [Errno 24] Too many open files: '/dev/null'\n"
                "Timed out after 11 seconds waiting for clients. 9/16 clients joined."
            ),
            folded=("LG-201",),
        ),
    ),
)
