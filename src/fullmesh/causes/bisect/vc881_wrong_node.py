"""One node makes the results of collectives wrong in every group that it is in (--bisect)

Every group with this node gets a wrong sum or copy, and no other group does. torch raises no error:
the job trains on wrong numbers. Repeat the run: faulty memory gives wrong results now and then,
faulty software always.

**Prove:** ./fullmesh verify --bisect

**Fix:** Leave the node out of jobs. Install the same torch as on the other nodes, and test its
memory and CPU.

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import WHOLE_JOB

CAUSE = Cause("VC-881", __doc__, weight=490, explains=(Explains(WHOLE_JOB),))
