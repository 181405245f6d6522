"""Cases of VC-203."""

from __future__ import annotations

from causes.faults import BARE, LINK_IN, WHOLE, Fault, wall

FAULTS = (
    Fault(
        "range-reset",
        BARE,
        wall("iifname eth1 tcp dport $FIRST-$LAST reject with tcp reset"),
        expect={**LINK_IN, "port": WHOLE},
    ),
)
