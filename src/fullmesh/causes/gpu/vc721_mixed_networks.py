"""NCCL uses different networks on the nodes of one job

NCCL needs one kind of network in a job, but nodes do not compare their choices. A node that uses
InfiniBand and one that uses TCP wait for each other forever. Fullmesh reports each node's choice
before that wait begins.

**Prove:** NCCL_DEBUG=INFO on every node, then grep 'Using network' in the logs

**Fix:** Repair the node that lacks the network (see VC-720), or set NCCL_NET=Socket on all nodes.

**Source:** NVIDIA/nccl issues 234 and 878
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains

CAUSE = Cause("VC-721", __doc__, weight=340, explains=(Explains(("VC-712", "VC-714")),))
