"""The account of jobs cannot write to a folder that jobs write to

Gloo, NCCL and DataLoader use shared memory in `/dev/shm`. torchrun, Triton and torch's compiler write to TMPDIR and to
their cache folders. The folder is full, read-only, missing or closed to the account.

**Prove:** su -l ACCOUNT -c 'mktemp -p FOLDER'

**Fix:** Make room, remount the folder, change its mode, or correct the variable that names it.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "VC-316",
    __doc__,
    weight=280,
    cases=(CauseCase("job-shm-closed", "chmod 755 /dev/shm"),),
)
