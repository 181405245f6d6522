"""A collective is slow, wrong or fails, and no node or pair of nodes explains all runs (--bisect)

No single node and no pair fits the results. There are 3 or more faults at once, or a fault that
comes and goes.

**Prove:** repeat the command, and compare the runs in `bisect` of result.json, or run ./fullmesh diagnose -i INVENTORY
--bandwidth

**Fix:** Leave the nodes that were in no good group out of jobs until they are repaired.

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import WHOLE_JOB

CAUSE = Cause("VC-885", __doc__, weight=450, explains=(Explains(WHOLE_JOB),))
