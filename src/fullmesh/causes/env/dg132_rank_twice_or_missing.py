"""a rank is there twice, or missing

Two ranks with one number overwrite each other's keys, and the missing one is waited for: 'wait timeout, keys:
…/RANK'.

**Prove:** env | grep -E 'RANK' on every node

**Fix:** Give every node its own NODE_RANK.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "DG-132", __doc__, weight=200, cases=(CauseCase("node-rank", "NODE_RANK=0 on a second node"),)
)
