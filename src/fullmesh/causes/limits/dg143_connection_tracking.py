"""the connection tracking table is full

New connections vanish, old ones live: 'nf_conntrack: table full, dropping packet'.

**Prove:** sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max

**Fix:** Raise nf_conntrack_max, or find who opens so many.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_root_node

CAUSE = Cause(
    "DG-143",
    __doc__,
    weight=1050,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138"), has_root_node),),
    cases=(CauseCase("conntrack", "nf_conntrack_count against nf_conntrack_max", by=RECORDED),),
)
