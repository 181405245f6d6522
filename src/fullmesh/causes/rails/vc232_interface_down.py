"""The interface of a rail is down or has no carrier

A NIC without a carrier has no link to the switch or to the other end of its cable. NCCL skips its
RDMA device at the start and fails if the carrier is lost later.

**Prove:** ip -br link && ethtool INTERFACE

**Fix:** Set the interface up. If it has no carrier, check cable, transceiver and switch port.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_root_end

CAUSE = Cause(
    "VC-232",
    __doc__,
    # found by VC-231
    weight=655,
    explains=(Explains(("VC-223", "VC-224", "DG-249"), has_root_end),),
    cases=(CauseCase("rail-down", "ip link set of the rail's interface down", by=RECORDED),),
)
