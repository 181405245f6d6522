"""one node makes collectives wrong, whoever its peers are (--bisect)

Every group of nodes with this one gets a wrong sum or copy, the others never do. torch raises nothing: the job trains
on wrong numbers. Run it again: a fault of memory comes and goes, one of software does not.

**Prove:** ./fullmesh verify --bisect

**Fix:** The same torch and Gloo as everywhere; its memory and processor tested; until then leave it out of jobs.

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import WHOLE_JOB

CAUSE = Cause("VC-881", __doc__, weight=490, explains=(Explains(WHOLE_JOB),))
