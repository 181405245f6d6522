"""a GPU has memory that could not be remapped

A GPU replaces rows of memory that break by spare ones, as long as there are any. Where that failed (Xid 64) it goes
on with broken memory, and jobs end with errors that ECC cannot fix.

**Prove:** nvidia-smi -q -d ROW_REMAPPER

**Fix:** Leave the GPU out of jobs and have the card replaced.

**Source:** NVIDIA, GPU Memory Error Management
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "VC-133",
    __doc__,
    cases=(CauseCase("gpu-remap", "a row of memory that could not be remapped", by=RECORDED),),
)
