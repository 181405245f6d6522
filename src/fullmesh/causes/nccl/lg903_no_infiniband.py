"""harmless: NCCL found no InfiniBand or RoCE device

NCCL found no InfiniBand or RoCE device and uses sockets: slower, not broken. With such a card in
the node it is worth a look.

**Prove:** ls /sys/class/infiniband; ibstat

**Fix:** Nothing without such a card; else install its driver and give the container
/dev/infiniband.

**Source:** read: nccl net_ib
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-903",
    __doc__,
    looks=("node1:920:1145 [1] NCCL INFO NET/IB : No device found.",),
    patterns=(Pattern("NET/IB : No device found"),),
    severity=Severity.HARMLESS,
)
