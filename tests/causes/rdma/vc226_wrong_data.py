"""Cases of VC-226."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.rdma import expect_warning, make_try, set_results

CHANGES = {
    "RDMA data": expect_warning(
        UB,
        set_results(
            (
                UB,
                make_try(
                    UB, 1, own={"step": "data", "error": "message 9 of 1048576 bytes", "count": 9}
                ),
            )
        ),
    ),
}
