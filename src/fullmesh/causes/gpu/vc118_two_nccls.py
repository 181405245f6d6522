"""torch's own NCCL and the system's are different versions (warning)

torch's wheels bring an NCCL of their own (pytorch#122571); what nccl-tests measure is the system's.

**Prove:** ldconfig -p | grep nccl; python -c 'import torch; print(torch.cuda.nccl.version())'

**Fix:** nccl_version as torch has it, or know it when you compare figures.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-118", __doc__, severity=WARNING)
