"""DistributedSampler gave a sample twice or lost one

DistributedSampler deals the samples out by rank and world size; ranks that disagree on these see a sample twice and
others never.

**Prove:** print rank and world size in the job

**Fix:** RANK and WORLD_SIZE from /etc/fullmesh/env, by a launcher of ours.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-802", __doc__)
