"""Cases of DG-155."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import REFUSED, Change, decided, ends, rule, shut, together
from causes.faults import BARE, LINK_OUT, MASTER, VICTIM, Fault, at

SET_MARK = {"mangle": {"key": {"meta": {"key": "mark"}}, "value": 16}}


CHANGES = {
    "blackhole": Change(UB, together(ends("no_route", "EINVAL"), decided(**REFUSED))),
    "answers refused": Change(UB, together(shut(), decided("answer", **REFUSED))),
    "refused by mark": Change(
        UB,
        together(
            ends("no_route", "EACCES"),
            rule("marks", SET_MARK, hook="output"),
            decided(error="EACCES", mark=16),
        ),
    ),
}
FAULTS = (
    Fault(
        "no-route",
        BARE,
        at(VICTIM, "ip route add unreachable $P_ADDR/32", "ip route del unreachable $P_ADDR/32"),
        expect=LINK_OUT,
    ),
    Fault(
        "refused",
        BARE,
        at(VICTIM, "ip route add blackhole $P_ADDR/32", "ip route del blackhole $P_ADDR/32"),
        "blackhole",
        expect=LINK_OUT,
    ),
    Fault(
        "refused",
        BARE,
        at(VICTIM, "ip route add prohibit $P_ADDR/32", "ip route del prohibit $P_ADDR/32"),
        "prohibit",
        MASTER,
        expect=LINK_OUT,
    ),
    Fault(
        "refused",
        BARE,
        at(
            VICTIM,
            "ip rule add pref 99 ipproto tcp dport $FIRST-$LAST to $P_ADDR blackhole",
            "ip rule del pref 99",
        ),
        "rule",
        expect=LINK_OUT,
    ),
)
