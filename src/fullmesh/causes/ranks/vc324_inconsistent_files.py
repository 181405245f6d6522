"""The environment file of a node describes another job than those of the other nodes

`/etc/fullmesh/env` has the same NNODES, MASTER_ADDR, MASTER_PORT and FULLMESH_RENDEZVOUS on all nodes. Each node has
its own NODE_RANK and address. If a file was edited, copied from another node or is from an earlier plan, the ranks
wait for each other at different places, or some of them start a smaller job.

**Prove:** compare /etc/fullmesh/env on all nodes

**Fix:** Apply the role cluster_env to all nodes (./fullmesh apply).
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-324",
    __doc__,
    weight=610,
    explains=(Explains(("DG-131",), has_same_node),),
    cases=(CauseCase("job-env-other-size", "NNODES=1 in /etc/fullmesh/env of one node"),),
)
