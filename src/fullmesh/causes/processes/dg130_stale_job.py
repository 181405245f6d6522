"""an earlier job still holds the master or rendezvous port

A store of before answers the new ranks with old keys, or the new one ends with EADDRINUSE while the other ranks hang
past their time-out.

**Prove:** ss -ltnp 'sport = :29500'

**Fix:** End the old job on all its nodes.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import NODE, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "DG-130",
    __doc__,
    weight=550,
    explains=(Explains(("VC-109", "VC-207"), has_same_node),),
    cases=(
        CauseCase(
            "stale-job",
            "the listener's command line has torchrun, torch.distributed, deepspeed, accelerate or pt_elastic in it",
            fields=(*NODE, "port"),
        ),
    ),
)
