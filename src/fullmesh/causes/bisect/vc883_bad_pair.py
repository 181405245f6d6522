"""Collectives are slow, wrong or fail if two nodes are in one group, and with neither alone (--bisect)

Each of the 2 nodes works with other nodes. The fault is therefore in the path between them, or in
settings of the two that do not fit together.

**Prove:** ./fullmesh diagnose -i INVENTORY --bandwidth --limit NODE,OTHER,localhost

**Fix:** Repair the cable, trunk or switch port between the two, or give both the same versions and MTU.

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import WHOLE_JOB

CAUSE = Cause("VC-883", __doc__, weight=470, explains=(Explains(WHOLE_JOB),))
