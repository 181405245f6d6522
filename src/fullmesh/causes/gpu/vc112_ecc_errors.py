"""A GPU had memory errors that ECC could not correct

An uncorrectable error ends the process that used the memory. It can come back until the row is
remapped, at the next reset of the GPU.

**Prove:** nvidia-smi -q -d ECC,ROW_REMAPPER

**Fix:** Reboot the node. Replace the GPU if the errors return.

**Source:** NVIDIA, GPU Memory Error Management
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "VC-112",
    __doc__,
    cases=(CauseCase("gpu-ecc", "two errors that ECC could not correct", by=RECORDED),),
)
