"""Cases of VC-223."""

from __future__ import annotations

from records import EL1 as EL

from causes.rdma import expect_warning, make_try, set_results

CHANGES = {
    f"RDMA path, {error}": expect_warning(
        EL, set_results((EL, make_try(EL, 2, own={"step": "rtr", "error": error, "count": 0})))
    )
    for error in ("ENETUNREACH", "EHOSTUNREACH", "ETIMEDOUT", "EINVAL")
}
