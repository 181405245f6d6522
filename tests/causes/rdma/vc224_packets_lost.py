"""Cases of VC-224."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.rdma import RETRIES, expect_warning, make_try, set_results

CHANGES = {
    "RDMA out, lost": expect_warning(
        EL,
        set_results(
            (
                EL,
                make_try(
                    EL,
                    1,
                    own={"step": "send", "error": RETRIES, "count": 0},
                    peer={"step": "receive", "count": 0},
                ),
            )
        ),
    ),
    "RDMA answers, lost": expect_warning(
        EL,
        set_results(
            (
                UB,
                make_try(
                    UB, 2, own={"step": "send", "error": RETRIES, "count": 0}, peer={"count": 1}
                ),
            )
        ),
    ),
    "RDMA out, lost, and the peer's outcome as well": expect_warning(
        EL,
        set_results(
            (
                EL,
                make_try(
                    EL,
                    1,
                    own={"step": "send", "error": RETRIES, "count": 0},
                    peer={"step": "exchange", "error": "ETIMEDOUT", "count": 0},
                ),
            )
        ),
    ),
}
