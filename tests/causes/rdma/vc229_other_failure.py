"""Cases of VC-229."""

from __future__ import annotations

from records import EL1 as EL

from causes.rdma import make_try, tried, warn

CHANGES = {
    "RDMA, another status": warn(
        EL,
        tried(
            (EL, make_try(EL, 1, own={"step": "send", "error": "IBV_WC_REM_OP_ERR", "count": 2}))
        ),
    ),
    "RDMA, ready to send": warn(
        EL, tried((EL, make_try(EL, 1, own={"step": "rts", "error": "EINVAL", "count": 0})))
    ),
}
