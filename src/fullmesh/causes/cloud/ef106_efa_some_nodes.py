"""Some nodes have EFA and some do not

NCCL needs the same kind of network on all nodes of a job.

**Prove:** on every node: lspci -d 1d0f:

**Fix:** Use one EFA-capable instance type for all nodes, or set NCCL_NET_PLUGIN=none on all.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-106", __doc__)
