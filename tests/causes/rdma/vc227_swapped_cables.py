"""Cases of VC-227."""

from __future__ import annotations

from records import EL1 as EL

from causes.rdma import expect_warning, make_try, set_results

CHANGES = {
    "swapped cables": expect_warning(
        EL,
        set_results(
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
