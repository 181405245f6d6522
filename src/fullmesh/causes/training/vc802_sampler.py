"""DistributedSampler repeated or lost a sample

DistributedSampler assigns the samples by rank and world size. If the ranks disagree on these, some
samples are used twice and others never.

**Prove:** env | grep -E '^(RANK|WORLD_SIZE)='

**Fix:** Take RANK and WORLD_SIZE from /etc/fullmesh/env, by starting the job with one of Fullmesh's
launchers.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-802", __doc__)
