"""The versions of torch, Python or NCCL differ between the nodes

Different versions of torch, Python or NCCL cause 'message truncated', pickle errors or wrong
results.

**Prove:** python -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'

**Fix:** ansible-playbook site.yml -i INVENTORY --tags packages.

**Source:** nccl#1328
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "VC-104",
    __doc__,
    cases=(CauseCase("torch-version", "another version in the metadata of the venv's torch"),),
)
