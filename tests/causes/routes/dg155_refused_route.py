"""Cases of DG-155."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import (
    REFUSED,
    Change,
    add_rule,
    block_links,
    block_reply_links,
    change_route,
    combine,
)
from causes.faults import BARE, LINK_OUT, MASTER, VICTIM, Fault, make_step

SET_MARK = {"mangle": {"key": {"meta": {"key": "mark"}}, "value": 16}}


CHANGES = {
    "blackhole": Change(
        UB, combine(block_reply_links("no_route", "EINVAL"), change_route(**REFUSED))
    ),
    "answers refused": Change(UB, combine(block_links(), change_route("answer", **REFUSED))),
    "refused by mark": Change(
        UB,
        combine(
            block_reply_links("no_route", "EACCES"),
            add_rule("marks", SET_MARK, hook="output"),
            change_route(error="EACCES", mark=16),
        ),
    ),
}
FAULTS = (
    Fault(
        "no-route",
        BARE,
        make_step(
            VICTIM, "ip route add unreachable $P_ADDR/32", "ip route del unreachable $P_ADDR/32"
        ),
        expect=LINK_OUT,
    ),
    Fault(
        "refused",
        BARE,
        make_step(VICTIM, "ip route add blackhole $P_ADDR/32", "ip route del blackhole $P_ADDR/32"),
        "blackhole",
        expect=LINK_OUT,
    ),
    Fault(
        "refused",
        BARE,
        make_step(VICTIM, "ip route add prohibit $P_ADDR/32", "ip route del prohibit $P_ADDR/32"),
        "prohibit",
        MASTER,
        expect=LINK_OUT,
    ),
    Fault(
        "refused",
        BARE,
        make_step(
            VICTIM,
            "ip rule add pref 99 ipproto tcp dport $FIRST-$LAST to $P_ADDR blackhole",
            "ip rule del pref 99",
        ),
        "rule",
        expect=LINK_OUT,
    ),
)
