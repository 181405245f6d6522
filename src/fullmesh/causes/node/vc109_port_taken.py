"""the master or rendezvous port is taken

Rank 0 ends with EADDRINUSE, and the others hang when the one who holds the port stays silent.

**Prove:** ss -ltnp 'sport = :29500'

**Fix:** End it, or choose another port for the plan.

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
