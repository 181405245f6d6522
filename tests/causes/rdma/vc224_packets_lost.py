"""Cases of VC-224."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.rdma import RETRIES, make_try, tried, warn

CHANGES = {
    "RDMA out, lost": warn(
        EL,
        tried(
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
    "RDMA answers, lost": warn(
        EL,
        tried(
            (
                UB,
                make_try(
                    UB, 2, own={"step": "send", "error": RETRIES, "count": 0}, peer={"count": 1}
                ),
            )
        ),
    ),
    "RDMA out, lost, and the peer's outcome as well": warn(
        EL,
        tried(
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
