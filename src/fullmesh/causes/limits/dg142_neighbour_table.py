"""the neighbour table is full

Beyond gc_thresh3 entries the kernel forgets neighbours while it talks to them: 'neighbour table overflow'.

**Prove:** ip neigh | wc -l; sysctl net.ipv4.neigh.default.gc_thresh3

**Fix:** Raise gc_thresh1 to 3 above the number of peers; role kernel_tuning does.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_root_node

CAUSE = Cause(
    "DG-142",
    __doc__,
    weight=1060,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138"), has_root_node),),
    cases=(CauseCase("neighbours", "entries against gc_thresh3, table_fulls", by=RECORDED),),
)
