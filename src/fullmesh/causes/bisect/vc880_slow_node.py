"""One node makes collectives slow in every group that it is in (--bisect)

Every group with this node reaches less than half of the other groups' bandwidth. A collective is as
slow as its slowest member, so this node slows down the whole job.

**Prove:** ./fullmesh diagnose -i INVENTORY --bandwidth

**Fix:** Repair its NIC (speed, duplex, errors, queue limits), cable or CPUs. Leave the node out of
jobs until it is fixed.

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-880", __doc__)
