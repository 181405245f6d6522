"""Cases of DG-113."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import NEW, Change, add_rule, block_links, combine, match_port, set_survey_part
from causes.faults import LINK_IN, TUNED, WHOLE, Fault, add_firewall

OLD = [
    "*filter",
    ":INPUT ACCEPT [0:0]",
    ":FORWARD ACCEPT [0:0]",
    ":OUTPUT ACCEPT [0:0]",
    "-A INPUT -i eth1 -p tcp -m tcp --dport 50000:54095 -j DROP",
]
DROP_RANGE = (match_port(50000, 54095), {"drop": None})


CHANGES = {
    "second table": Change(UB, combine(block_links(), add_rule("extra", NEW, *DROP_RANGE))),
    "old iptables": Change(
        UB, combine(block_links(), set_survey_part("legacy_rules", {"ip": OLD}))
    ),
}
RECORDED = {"range-drop": UB}
FAULTS = (
    Fault(
        "second-table",
        TUNED,
        add_firewall("iifname eth1 tcp dport $FIRST-$LAST drop"),
        expect={**LINK_IN, "port": WHOLE},
    ),
)
