"""Cases of VC-226."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.rdma import make_try, tried, warn

CHANGES = {
    "RDMA data": warn(
        UB,
        tried(
            (
                UB,
                make_try(
                    UB, 1, own={"step": "data", "error": "message 9 of 1048576 bytes", "count": 9}
                ),
            )
        ),
    ),
}
