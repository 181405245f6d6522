"""RDMA delivered data that differs from the data that was sent

Each packet has a checksum (ICRC), so wrong data without an error comes from the memory or the PCIe
path of a NIC, or from a device on the path that computes the checksum again.

**Prove:** ibv_rc_pingpong -c -d DEVICE -g INDEX PEER

**Fix:** Replace the cable, then the NIC, and check the node's memory.

**Source:** InfiniBand Architecture Specification, section 7.8 (ICRC)
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains

CAUSE = Cause(
    "VC-226",
    __doc__,
    weight=360,
    explains=(Explains(("VC-712", "VC-713", "VC-714")),),
    cases=(
        CauseCase(
            "rdma-wrong-data",
            "a message of 1 MiB arrives with other data",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
