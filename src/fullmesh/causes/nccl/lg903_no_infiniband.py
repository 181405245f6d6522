"""Harmless: NCCL found no InfiniBand or RoCE device

NCCL found no InfiniBand or RoCE device and uses sockets. That is slower, but it works. If the node
has such a NIC, find out why NCCL does not see it.

**Prove:** run `ls /sys/class/infiniband` and `ibstat`

**Fix:** Nothing to do if the node has no such NIC. Otherwise install its driver and pass
/dev/infiniband to the container.

**Source:** read: nccl net_ib
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-903",
    __doc__,
    examples=("node1:920:1145 [1] NCCL INFO NET/IB : No device found.",),
    patterns=(Pattern("NET/IB : No device found"),),
    severity=Severity.HARMLESS,
)
