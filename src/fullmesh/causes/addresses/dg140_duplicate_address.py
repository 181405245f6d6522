"""two machines have one cluster address

Whoever won ARP last gets the packets, so connections work and break by turns, or reach a machine that is not in the
job.

**Prove:** arping -D -I INTERFACE ADDRESS; ip neigh show

**Fix:** Find the MAC in the switch's table and give that machine an address of its own. A kernel answers on every
card for all of its addresses, also for one on lo (arp_ignore=0), so a node of the plan is named where it is one.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import NODE, Cause, CauseCase, Explains
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_root_end, has_same_node

CAUSE = Cause(
    "DG-140",
    __doc__,
    weight=1080,
    explains=(
        Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-141", "VC-103"), has_root_end),
        Explains(("DG-155", "DG-156"), has_same_node),
    ),
    cases=(
        CauseCase(
            "duplicate",
            "another namespace on the bridge with the victim's address",
            fields=(*NODE, "peer"),
        ),
    ),
)
