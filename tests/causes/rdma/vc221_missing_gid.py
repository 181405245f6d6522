"""Cases of VC-221."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import combine, set_survey_part
from causes.rdma import add_rails, expect_warning, make_port, make_try, set_results

CHANGES = {
    "a twin without an address": expect_warning(
        UB,
        combine(
            add_rails,
            set_survey_part("rdma", [make_port(1, 12), make_port(2, 12, gids=("fe80::2",))], UB),
        ),
    ),
    "a GID that is gone": expect_warning(
        UB, set_results((UB, make_try(UB, 1, own={"step": "gid", "count": 0}, peer={"count": 0})))
    ),
    "a GID of RoCE v1 only": expect_warning(
        UB,
        set_results(
            (UB, make_try(UB, 1, own={"step": "gid_type", "error": "IB/RoCE v1", "count": 0}))
        ),
    ),
}
