"""torch is built for a newer CUDA than the GPU driver supports

A GPU driver runs programs that are built for its CUDA version or an older one. With a newer one,
torch finds no GPU.

**Prove:** nvidia-smi | grep CUDA && python -c 'import torch; print(torch.version.cuda)'

**Fix:** Install a newer driver, or torch for an older CUDA. The finding names a
torch_runtime_version that has a lock for it. Otherwise make a lock (./fullmesh torch-lock) and set
torch_runtime_requirements.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-117", __doc__, weight=390, explains=(Explains(("VC-719", "VC-711"), has_same_node),)
)
