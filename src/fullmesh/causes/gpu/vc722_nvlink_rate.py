"""The GPUs of a node use a small part of their NVLinks (warning)

NVLinks connect all GPUs of the node, but large messages use PCIe or the host's memory. Fullmesh
expects at least a fifth of the NVLinks' bandwidth in one direction. PCIe has a tenth of it, and
healthy machines reach three quarters with large messages.

**Prove:** all_reduce_perf -b 64M -e 1G -f 2 -g GPUS (with NCCL_DEBUG=INFO: `via P2P`, not `via
SHM`)

**Fix:** Unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL. Start the fabric manager (VC-136), and run
containers with all GPUs in one namespace. On a virtual machine, allow peer-to-peer in the
hypervisor.

**Source:** NVIDIA/nccl-tests issues 149 and 212
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-722",
    __doc__,
    severity=WARNING,
    weight=320,
    explains=(Explains(("VC-716",), has_same_node),),
)
