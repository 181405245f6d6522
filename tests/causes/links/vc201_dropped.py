"""Cases of VC-201."""

from __future__ import annotations

from verify_changes import verdict

from causes.faults import BARE, LINK_IN, LINK_OUT, MASTER, WHOLE, Fault, add_firewall

SECOND_RULE = "on {victim}: nft delete rule inet fault input handle 3"


VERIFICATION = {
    "drop": verdict("dropped"),
}
FAULTS = (
    # No recording shows the reason. The node's kernel reports it.
    Fault(
        "decoy",
        BARE,
        add_firewall(
            "iifname eth1 tcp dport $FIRST-$LAST @nh,64,8 1 drop; "
            "iifname eth1 tcp dport $FIRST-$LAST @nh,64,8 > 1 counter drop"
        ),
        expect={**LINK_IN, "port": WHOLE, "fix": SECOND_RULE},
    ),
    Fault(
        "range-drop",
        BARE,
        add_firewall("iifname eth1 tcp dport $FIRST-$LAST drop"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "range-drop",
        BARE,
        add_firewall("iifname eth1 tcp dport $FIRST-$LAST drop"),
        "master",
        MASTER,
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "output-drop",
        BARE,
        add_firewall("oifname eth1 tcp dport $FIRST-$LAST drop", "output"),
        expect={**LINK_OUT, "port": WHOLE},
    ),
    Fault(
        "one-way",
        BARE,
        add_firewall("ip saddr $P_ADDR tcp dport $FIRST-$LAST drop"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "random-master",
        BARE,
        add_firewall(
            "iifname != eth1 accept; ct state established,related accept; meta l4proto icmp accept;"
            " tcp dport { 22, 29400, 29500 } accept",
            policy="drop",
        ),
        victim=MASTER,
        expect={**LINK_IN, "port": WHOLE},
    ),
)
