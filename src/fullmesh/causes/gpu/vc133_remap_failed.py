"""A GPU has faulty memory that could not be remapped

A GPU replaces faulty rows of memory by spare rows. If that fails (Xid 64), it continues with faulty
memory, and jobs end with errors that ECC cannot correct.

**Prove:** nvidia-smi -q -d ROW_REMAPPER

**Fix:** Leave the GPU out of jobs and have it replaced.

**Source:** NVIDIA, GPU Memory Error Management
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "VC-133",
    __doc__,
    cases=(CauseCase("gpu-remap", "a row of memory that could not be remapped", by=RECORDED),),
)
