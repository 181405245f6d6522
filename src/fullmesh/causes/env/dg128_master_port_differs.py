"""MASTER_PORT differs between the nodes

Ranks of that node knock at a port where nobody listens.

**Prove:** env | grep MASTER_PORT on every node

**Fix:** Set one port on all nodes.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "DG-128",
    __doc__,
    weight=220,
    cases=(CauseCase("master-port", "MASTER_PORT=29999 on one node"),),
)
