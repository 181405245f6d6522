"""FSDP does not shard, or trains something else

FSDP keeps a share of every parameter on each rank; a rank with all of them runs out of memory later.

**Prove:** Sizes of the local shards

**Fix:** The same torch everywhere; a mesh over all ranks.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-807", __doc__)
