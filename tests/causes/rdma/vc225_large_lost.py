"""Cases of VC-225."""

from __future__ import annotations

from records import EL1 as EL

from causes.rdma import RETRIES, expect_warning, make_try, set_results

CHANGES = {
    "RDMA large, lost": expect_warning(
        EL,
        set_results(
            (
                EL,
                make_try(
                    EL, 1, own={"step": "send", "error": RETRIES, "count": 8}, peer={"count": 8}
                ),
            )
        ),
    ),
}
