"""NCCL: a listener received a connection of the wrong kind

A rank connected to the wrong listener ({detail}): processes of an earlier run are still active, or
the nodes have different NCCL settings.

**Place:** a node with an older process of the job, or with different NCCL_ variables

**Prove:** on all nodes, run `pgrep -af python` and compare `env | grep ^NCCL_ | sort`

**Fix:** End the processes of earlier runs and use one environment for all nodes.

**Source:** NVIDIA/nccl-tests#188
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-425",
    __doc__,
    examples=(
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
