"""the shared memory in /dev/shm is too small

NCCL's ranks of one node talk through files in /dev/shm: 'failed to extend /dev/shm/nccl-…'. Containers get 64 MB by
default.

**Prove:** df -h /dev/shm

**Fix:** --shm-size or --ipc=host for containers; remount it on a node.

**Source:** nccl#290
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "DG-248",
    __doc__,
    weight=140,
    cases=(CauseCase("shm", "mount a tmpfs of 16 MiB over /dev/shm"),),
)
