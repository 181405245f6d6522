"""Cases of DG-255."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import REFUSED, Change, add_rule, change_route
from causes.faults import BARE, LINK_OUT, VICTIM, Fault, make_step

OF_ACCOUNT = {"match": {"op": "==", "left": {"meta": {"key": "skuid"}}, "right": 1500}}


CHANGES = {
    "account refused": Change(UB, change_route(**REFUSED, uid=1000)),
    "account filtered": Change(UB, add_rule("owners", OF_ACCOUNT, {"drop": None}, hook="output")),
}
FAULTS = (
    Fault(
        "refused-account",
        BARE,
        make_step(
            VICTIM,
            "ip rule add pref 99 uidrange 1000-1999 to $P_ADDR prohibit",
            "ip rule del pref 99",
        ),
        expect=LINK_OUT,
    ),
)
