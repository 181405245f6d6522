"""torch's own NCCL and the system's are different versions (warning)

torch's wheels include their own NCCL (pytorch#122571). nccl-tests use the system's, so their
figures may differ from those of jobs.

**Prove:** ldconfig -p | grep nccl && python -c 'import torch; print(torch.cuda.nccl.version())'

**Fix:** Set nccl_version to torch's version, or consider the difference when you compare figures.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-118", __doc__, severity=WARNING)
