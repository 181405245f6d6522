"""The compute mode of a GPU is Prohibited, so no program can use it

No program can create a CUDA context: `CUDA-capable device(s) is/are busy or unavailable`.

**Prove:** nvidia-smi -q -d COMPUTE

**Fix:** nvidia-smi --compute-mode=DEFAULT
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-138",
    __doc__,
    weight=410,
    explains=(Explains(("VC-719", "VC-711", "VC-712"), has_same_node),),
    cases=(CauseCase("gpu-prohibited", "compute mode Prohibited", by=RECORDED),),
)
