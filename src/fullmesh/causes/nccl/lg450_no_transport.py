"""NCCL: no transport connects two ranks

NCCL found no way from rank {rank} to rank {other}. Settings switched off every transport that the
two have in common (P2P, shared memory, sockets, RDMA).

**Place:** the settings of the node of this log

**Prove:** env | grep -E '^NCCL_(P2P|SHM|NET|IB|SOCKET)'

**Fix:** Remove NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and NCCL_NET from the job's environment and from
nccl.conf, one at a time.

**Source:** read: NCCL's transport.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-450",
    __doc__,
    examples=(
        ("n:1:2 [0] transport.cc:5 NCCL WARN No transport found for rank 0[1000] -> rank 1[2000]"),
    ),
    patterns=(
        Pattern(
            "No transport found for rank",
            r"No transport found for rank (?P<rank>\d{1,7})\[\w{1,20}\] -> rank (?P<other>\d{1,7})",
        ),
    ),
    weight=86,
)
