"""a collective is slow, wrong or fails, and no node, nor any two, explain all runs (--bisect)

No node that is always bad, nor any two, would give what the runs gave: three faults at once, or one that comes and
goes.

**Prove:** The runs, in bisect of the result; once more, and compare

**Fix:** ./fullmesh diagnose -i INVENTORY --bandwidth; the nodes that were in no good group first.

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import WHOLE_JOB

CAUSE = Cause("VC-885", __doc__, weight=450, explains=(Explains(WHOLE_JOB),))
