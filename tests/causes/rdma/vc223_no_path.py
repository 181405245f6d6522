"""Cases of VC-223."""

from __future__ import annotations

from records import EL1 as EL

from causes.rdma import make_try, tried, warn

CHANGES = {
    f"RDMA path, {error}": warn(
        EL, tried((EL, make_try(EL, 2, own={"step": "rtr", "error": error, "count": 0})))
    )
    for error in ("ENETUNREACH", "EHOSTUNREACH", "ETIMEDOUT", "EINVAL")
}
