"""Collectives fail in every group that one node is in (--bisect)

Every group with this node fails or does not finish, and all other groups finish.

**Prove:** read the message of the node's rank, in `bisect` of result.json

**Fix:** Correct the error in that message. If it is about the network: ./fullmesh diagnose -i INVENTORY

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import WHOLE_JOB

CAUSE = Cause("VC-882", __doc__, weight=480, explains=(Explains(WHOLE_JOB),))
