"""RDMA between two devices failed at another step

The finding shows the step and the error: an errno of libibverbs, or the status of a completion.

**Prove:** ibv_rc_pingpong -d DEVICE -g INDEX PEER && dmesg

**Fix:** Look up the error, and check firmware and driver of both NICs.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains

CAUSE = Cause(
    "VC-229",
    __doc__,
    weight=330,
    explains=(Explains(("VC-712", "VC-714")),),
    cases=(
        CauseCase(
            "rdma-other-failure",
            "a message ends with a remote operation error",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
