"""one node makes collectives slow, whoever its peers are (--bisect)

Every group of nodes with this one reaches less than half of what the others do, whoever else is in it. A collective
is as slow as its slowest member, so one such node slows the whole job.

**Prove:** ./fullmesh diagnose -i INVENTORY --bandwidth; iperf3 to it and from it

**Fix:** Its card (speed, duplex, errors, a queue with a rate), its cable, its processors; till then leave it out.

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-880", __doc__)
