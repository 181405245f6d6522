"""Variables override NCCL's own choices (warning)

NCCL chooses algorithm, protocol and channels for the hardware that it finds and for each message
size. A fixed value replaces that choice for every job and every size.

**Prove:** env | grep NCCL_ (a job with NCCL_DEBUG=INFO prints `set by environment`)

**Fix:** Unset the variable, unless a measurement on these nodes shows that it helps.

**Source:** NCCL documentation, Environment Variables: debug and tuning ones are not for production
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-144", __doc__, severity=WARNING)
