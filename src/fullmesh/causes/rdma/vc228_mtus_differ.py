"""The active RDMA MTUs of two devices differ

A queue pair uses the smaller active MTU of both ends. Jobs run, but a rail with 1024 bytes is slower
than one with 4096. After a firmware update or a reboot, one interface of a NIC often has its default
MTU of 1500 again.

**Prove:** ibv_devinfo -v | grep active_mtu && ip link

**Fix:** Set the same MTU on both interfaces, in their permanent configuration.

**Source:** rdma-core, ibv_query_port(3)
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-228",
    __doc__,
    severity=WARNING,
    weight=60,
    explains=(Explains(("VC-714",)),),
    cases=(
        CauseCase(
            "rdma-mtus-differ",
            "one end has an interface MTU of 9000 and the other 1500",
            by=RECORDED,
        ),
    ),
)
