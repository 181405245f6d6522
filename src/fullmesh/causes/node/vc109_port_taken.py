"""Another process uses the master or rendezvous port

Rank 0 ends with EADDRINUSE. If the other process accepts connections but never answers, the other
ranks hang.

**Prove:** ss -ltnp 'sport = :29500'

**Fix:** End that process, or choose another port in the inventory.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import NODE, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-109",
    __doc__,
    weight=540,
    explains=(Explains(("VC-207",), has_same_node),),
    cases=(
        CauseCase(
            "port-taken", "a listener on 0.0.0.0:29500 of the master's node", fields=(*NODE, "port")
        ),
    ),
)
