"""Cases of VC-201."""

from __future__ import annotations

from verify_changes import verdict

from causes.faults import BARE, LINK_IN, LINK_OUT, MASTER, WHOLE, Fault, wall

SECOND_RULE = "on {victim}: nft delete rule inet fault input handle 3"


VERIFICATION = {
    "drop": verdict("dropped"),
}
FAULTS = (
    # Which of them it is, no paper says: the node's kernel does.
    Fault(
        "decoy",
        BARE,
        wall(
            "iifname eth1 tcp dport $FIRST-$LAST @nh,64,8 1 drop; "
            "iifname eth1 tcp dport $FIRST-$LAST @nh,64,8 > 1 counter drop"
        ),
        expect={**LINK_IN, "port": WHOLE, "fix": SECOND_RULE},
    ),
    Fault(
        "range-drop",
        BARE,
        wall("iifname eth1 tcp dport $FIRST-$LAST drop"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "range-drop",
        BARE,
        wall("iifname eth1 tcp dport $FIRST-$LAST drop"),
        "master",
        MASTER,
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "output-drop",
        BARE,
        wall("oifname eth1 tcp dport $FIRST-$LAST drop", "output"),
        expect={**LINK_OUT, "port": WHOLE},
    ),
    Fault(
        "one-way",
        BARE,
        wall("ip saddr $P_ADDR tcp dport $FIRST-$LAST drop"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "random-master",
        BARE,
        wall(
            "iifname != eth1 accept; ct state established,related accept; meta l4proto icmp accept;"
            " tcp dport { 22, 29400, 29500 } accept",
            policy="drop",
        ),
        victim=MASTER,
        expect={**LINK_IN, "port": WHOLE},
    ),
)
