"""A node starts more or fewer ranks than it has GPUs (a warning for fewer, set by hand)

A job starts fullmesh_local_ranks ranks on each node, and every rank uses the GPU of its number. Too
few ranks leave GPUs idle, and too many leave ranks without a GPU. A GPU under MIG is several
devices and is not counted.

**Prove:** nvidia-smi -L && grep -r LOCAL_WORLD_SIZE /etc/fullmesh/env

**Fix:** Set fullmesh_local_ranks to the number of GPUs. To keep some GPUs out of jobs, list the
others in CUDA_VISIBLE_DEVICES (cluster_env_extra).
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause("VC-718", __doc__, weight=370, explains=(Explains(("VC-711",), has_same_node),))
