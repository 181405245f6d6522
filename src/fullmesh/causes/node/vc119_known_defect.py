"""A version of torch, NCCL or the driver has a known defect (warning)

A newer version of torch, NCCL or the NVIDIA driver does not have a defect of the installed one that
is known in public. The finding has its symptom and its source. It matters only if your jobs have
this symptom.

**Prove:** python -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'; nvidia-smi

**Fix:** If jobs have this problem, set torch_runtime_version, nccl_version or
nvidia_driver_branch to a newer version.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-119", __doc__, severity=WARNING)
