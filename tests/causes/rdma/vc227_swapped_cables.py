"""Cases of VC-227."""

from __future__ import annotations

from records import EL1 as EL

from causes.rdma import make_try, tried, warn

CHANGES = {
    "swapped cables": warn(
        EL,
        tried(
            *(
                (
                    EL,
                    make_try(
                        EL,
                        rail,
                        own={"step": "rtr", "error": "EHOSTUNREACH", "count": 0},
                        peer={"count": 0},
                    ),
                )
                for rail in (1, 2)
            ),
            (EL, make_try(EL, 1, 2)),
            (EL, make_try(EL, 2, 1)),
        ),
    ),
}
