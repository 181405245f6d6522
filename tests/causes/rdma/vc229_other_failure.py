"""Cases of VC-229."""

from __future__ import annotations

from records import EL1 as EL

from causes.rdma import expect_warning, make_try, set_results

CHANGES = {
    "RDMA, another status": expect_warning(
        EL,
        set_results(
            (EL, make_try(EL, 1, own={"step": "send", "error": "IBV_WC_REM_OP_ERR", "count": 2}))
        ),
    ),
    "RDMA, ready to send": expect_warning(
        EL, set_results((EL, make_try(EL, 1, own={"step": "rts", "error": "EINVAL", "count": 0})))
    ),
}
