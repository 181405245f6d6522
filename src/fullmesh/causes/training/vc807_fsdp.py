"""FSDP does not shard, or trains a different model

FSDP keeps a part of every parameter on each rank. A rank that keeps all parameters runs out of
memory later.

**Prove:** python -m torch.utils.collect_env

**Fix:** Use the same torch version on all nodes, and a mesh over all ranks.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-807", __doc__)
