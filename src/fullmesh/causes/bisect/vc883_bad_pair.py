"""Collectives are slow, wrong or fail if two nodes are in one group, and with neither alone (--bisect)

Each of the 2 nodes works with other nodes. The fault is therefore in the path between them, or in
settings of the two that do not fit together.

**Prove:** ./fullmesh diagnose -i INVENTORY --bandwidth --limit NODE,OTHER,localhost

**Fix:** Check the cables, the trunk and the switch between the two, and compare their versions and
MTUs.

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import WHOLE_JOB

CAUSE = Cause("VC-883", __doc__, weight=470, explains=(Explains(WHOLE_JOB),))
