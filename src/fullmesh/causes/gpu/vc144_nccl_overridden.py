"""NCCL's own choices are taken away from it by variables (warning)

NCCL works algorithm, protocol and channels out of the machine that it finds. A value from somebody's recipe keeps it
from doing so, for every job and every size.

**Prove:** env | grep NCCL_; NCCL_DEBUG=INFO prints what environment set

**Fix:** Take it out; keep it only where a measurement on these nodes says so.

**Source:** NCCL documentation, Environment Variables: debug and tuning ones are not for production
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-144", __doc__, severity=WARNING)
