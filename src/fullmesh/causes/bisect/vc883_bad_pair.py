"""collectives are slow, wrong or fail where two nodes are together, and with neither alone (--bisect)

Each of the two nodes is well in the company of others. What they have for themselves is the way between them, or a
pair of settings that do not go together.

**Prove:** ./fullmesh diagnose -i INVENTORY --bandwidth --limit NODE,OTHER,localhost

**Fix:** The cables, the trunk or the switch between the two; their versions and MTUs.

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import WHOLE_JOB

CAUSE = Cause("VC-883", __doc__, weight=470, explains=(Explains(WHOLE_JOB),))
