"""A rank failed before the first collective of NCCL

The rank raised an exception while it initialized its GPU, before it connected to other GPUs.

**Prove:** nvidia-smi && VENV/bin/python -c 'import torch; torch.cuda.init()'

**Fix:** Correct the exception in the message, which names the file and the line.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-724", __doc__)
