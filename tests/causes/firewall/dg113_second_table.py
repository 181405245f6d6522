"""Cases of DG-113."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import NEW, Change, dport, put, rule, shut, together
from causes.faults import LINK_IN, TUNED, WHOLE, Fault, wall

OLD = [
    "*filter",
    ":INPUT ACCEPT [0:0]",
    ":FORWARD ACCEPT [0:0]",
    ":OUTPUT ACCEPT [0:0]",
    "-A INPUT -i eth1 -p tcp -m tcp --dport 50000:54095 -j DROP",
]
DROP_RANGE = (dport(50000, 54095), {"drop": None})


CHANGES = {
    "second table": Change(UB, together(shut(), rule("extra", NEW, *DROP_RANGE))),
    "old iptables": Change(UB, together(shut(), put("legacy_rules", {"ip": OLD}))),
}
RECORDED = {"range-drop": UB}
FAULTS = (
    Fault(
        "second-table",
        TUNED,
        wall("iifname eth1 tcp dport $FIRST-$LAST drop"),
        expect={**LINK_IN, "port": WHOLE},
    ),
)
