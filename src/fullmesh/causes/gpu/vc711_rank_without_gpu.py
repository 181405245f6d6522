"""a rank has no GPU of its own while others have one

A rank without a GPU of its own shares one with another rank, which NCCL refuses, or trains on the CPU.

**Prove:** nvidia-smi -L; grep LOCAL /etc/fullmesh/env

**Fix:** fullmesh_local_ranks as many as GPUs, or find the missing card.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-711", __doc__)
