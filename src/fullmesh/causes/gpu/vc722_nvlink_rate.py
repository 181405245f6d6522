"""the GPUs of a node use a small part of their NVLinks (warning)

Large messages between GPUs of one node go over PCIe or the host's memory although NVLinks lead from every GPU to
every other. A fifth of what the NVLinks carry in one direction is asked for: PCIe has a tenth of it, healthy machines
reach three quarters with large messages.

**Prove:** all_reduce_perf -b 64M -e 1G -f 2 -g GPUS; NCCL_DEBUG=INFO (`via P2P`, not `via SHM`); nvidia-smi topo -p2p
n

**Fix:** NCCL_P2P_DISABLE and NCCL_P2P_LEVEL unset; fabric manager running (VC-136); containers with all GPUs in one
namespace; peer-to-peer allowed by the hypervisor.

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
