"""NCCL: a connection of the wrong kind came in

A rank connected to the wrong listener ({detail}): left-over processes of another run, or nodes with
different NCCL settings.

**Where:** a node with an older process of the job, or other NCCL_ settings

**Prove:** on all nodes: pgrep -af python; env | grep ^NCCL_ | sort (compare)

**Fix:** End left-over processes; one environment for all nodes.

**Source:** NVIDIA/nccl-tests#188
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-425",
    __doc__,
    looks=(
        (
            "user:16899:16961 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type "
            "4 != 3"
        ),
    ),
    patterns=(
        Pattern(
            "socketFinalizeAccept: wrong",
            r"socketFinalizeAccept: (?P<detail>wrong type [^\n]{1,60})",
        ),
    ),
    weight=70,
)
