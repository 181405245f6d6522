"""an RDMA port is down

NCCL uses the ports that are up; with none it falls back to TCP without an error, ten times slower.

**Prove:** ibstat; cat /sys/class/infiniband/*/ports/*/state

**Fix:** Look at the cable, the switch and the subnet manager.

**Source:** nccl#286
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "DG-249",
    __doc__,
    weight=130,
    cases=(CauseCase("rdma-port", "an RDMA port is down on one node", by=RECORDED),),
)
