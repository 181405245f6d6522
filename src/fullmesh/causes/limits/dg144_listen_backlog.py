"""the listen backlog is too short for the ranks

All ranks connect to the store at once. What does not fit into the backlog is dropped and tried again after a second
and more: start-up takes ten times as long.

**Prove:** sysctl net.core.somaxconn; nstat -az TcpExtListenOverflows

**Fix:** Set net.core.somaxconn to at least twice the number of ranks: each opens two connections to the store.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_lossy_end

CAUSE = Cause(
    "DG-144",
    __doc__,
    weight=1040,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138"), has_lossy_end),),
    cases=(
        CauseCase(
            "backlog",
            "sysctl -w net.core.somaxconn=1 on the master; an error once connections are lost",
            severity="warning",
        ),
    ),
)
