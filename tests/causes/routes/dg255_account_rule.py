"""Cases of DG-255."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import REFUSED, Change, decided, rule
from causes.faults import BARE, LINK_OUT, VICTIM, Fault, at

OF_ACCOUNT = {"match": {"op": "==", "left": {"meta": {"key": "skuid"}}, "right": 1500}}


CHANGES = {
    "account refused": Change(UB, decided(**REFUSED, uid=1000)),
    "account filtered": Change(UB, rule("owners", OF_ACCOUNT, {"drop": None}, hook="output")),
}
FAULTS = (
    Fault(
        "refused-account",
        BARE,
        at(
            VICTIM,
            "ip rule add pref 99 uidrange 1000-1999 to $P_ADDR prohibit",
            "ip rule del pref 99",
        ),
        expect=LINK_OUT,
    ),
)
