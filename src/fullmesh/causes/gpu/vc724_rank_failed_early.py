"""A rank failed before the first collective of NCCL

A rank raised an error of its own while it took its GPU, before any GPU was connected with another.

**Prove:** nvidia-smi; VENV/bin/python -c 'import torch; torch.cuda.init()'

**Fix:** See the exception in the message: it names the file and the line.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-724", __doc__)
