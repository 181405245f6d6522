"""UCX: a transport is missing

UCX has no transport for this job ({detail}). UCX_TLS names one that this build does not have (often
CUDA support), or no network reaches the peer.

**Place:** the environment of the node of this log

**Prove:** run `ucx_info -d` and `env | grep ^UCX_` on both nodes

**Fix:** Remove UCX_TLS and UCX_NET_DEVICES, or install a UCX with CUDA and verbs support, the same
on all nodes.

**Source:** read: UCX's ucp_context.c and select.c
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-739",
    __doc__,
    examples=(
        (
            "[1745.1] [n:1:0] ucp_context.c:5 UCX  WARN  transports 'cuda_ipc','cuda_copy' are "
            "not available, please use one or more of: mm, posix, self, shm, sm, sysv, tcp"
        ),
    ),
    patterns=(
        Pattern(
            "are not available, please use one or more of",
            r"UCX +(?:WARN|ERROR) +(?P<detail>transports? \S{1,80} (?:are|is) not available)",
        ),
        Pattern(
            "no active messages transport",
            r"UCX +ERROR +(?P<detail>no active messages transport to)",
        ),
        Pattern(
            "Destination is unreachable",
            r"UCX +ERROR .{0,120}(?P<detail>Destination is unreachable)",
        ),
        Pattern(
            "no copy across memory types",
            r"UCX +ERROR +(?P<detail>no copy across memory types transport to)",
        ),
    ),
    explains=(Explains(("LG-738",)),),
    survivable=True,
    weight=76,
)
