"""a link is far too slow

The slowest link sets the pace of every collective; nothing ever says so. Who is slow whoever the peer is has a card,
cable, switch port or queue that is slow; a pair that is slow alone, the way between.

**Prove:** ethtool INTERFACE; tc qdisc show dev INTERFACE; iperf3

**Fix:** Fix the negotiation, take the shaping away.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_links

CAUSE = Cause(
    "DG-139",
    __doc__,
    weight=440,
    explains=(Explains(("VC-209",), has_same_links),),
    cases=(
        CauseCase(
            "slow", "tc tbf rate 10mbit on the node's eth1", fields=LINK, options=("--bandwidth",)
        ),
    ),
)
