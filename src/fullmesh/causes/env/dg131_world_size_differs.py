"""WORLD_SIZE or NNODES differs between the nodes

The store waits for ranks that nobody starts ('2/3 clients joined'), or ranks come that nobody expects.

**Prove:** env | grep -E 'WORLD_SIZE|NNODES' on every node

**Fix:** Set one value on all nodes; better, let torchrun work it out.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "DG-131", __doc__, weight=210, cases=(CauseCase("world-size", "WORLD_SIZE=3 on one node"),)
)
