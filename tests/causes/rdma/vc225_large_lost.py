"""Cases of VC-225."""

from __future__ import annotations

from records import EL1 as EL

from causes.rdma import RETRIES, make_try, tried, warn

CHANGES = {
    "RDMA large, lost": warn(
        EL,
        tried(
            (
                EL,
                make_try(
                    EL, 1, own={"step": "send", "error": RETRIES, "count": 8}, peer={"count": 8}
                ),
            )
        ),
    ),
}
