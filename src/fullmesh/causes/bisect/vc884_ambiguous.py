"""A collective is slow, wrong or fails, and the runs leave more than one explanation (--bisect)

With only 2 nodes, no third node can show which one is at fault. With several pairs at fault, the
number of runs may not be enough to tell them apart.

**Prove:** read the runs, in `bisect` of result.json, or run ./fullmesh diagnose -i INVENTORY --bandwidth

**Fix:** Repeat the run with one more node, or leave the suspected nodes out of jobs.

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import WHOLE_JOB

CAUSE = Cause("VC-884", __doc__, weight=460, explains=(Explains(WHOLE_JOB),))
