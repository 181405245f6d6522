"""torch is built for a newer CUDA than the GPU driver runs

A GPU driver runs programs that are built for its CUDA or an older one; torch finds no GPU otherwise.

**Prove:** nvidia-smi | grep CUDA; python -c 'import torch; print(torch.version.cuda)'

**Fix:** A newer driver, or torch for an older CUDA: the finding names the torch_runtime_version that has a lock for
it, else a lock of your own (./fullmesh torch-lock) in torch_runtime_requirements.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-117", __doc__, weight=390, explains=(Explains(("VC-719", "VC-711"), has_same_node),)
)
