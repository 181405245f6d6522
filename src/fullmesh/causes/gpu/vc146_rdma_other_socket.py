"""All RDMA NICs are on a different CPU than the GPUs (warning)

On a board with 2 CPUs, each PCIe slot belongs to one of them. If GPUs and RDMA NICs are on
different CPUs, every message crosses the link between the CPUs. GPUDirect RDMA is slow there, or
NCCL does not use it.

**Prove:** nvidia-smi topo -m (SYS between GPU and NIC)

**Fix:** Move the NIC to a slot of the GPUs' CPU.

**Source:** NCCL documentation, Environment Variables, NCCL_NET_GDR_LEVEL
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.cards import find_numa_faults, list_gpu_nodes
from fullmesh.verify.model import ClusterObservations


def find_far_nics(seen: ClusterObservations) -> Iterator[Finding]:
    """Find nodes whose RDMA NICs are all on a different CPU than the GPUs."""
    for node, box in list_gpu_nodes(seen):
        yield from find_numa_faults(node, box)


CAUSE = Cause(
    "VC-146",
    __doc__,
    find=find_far_nics,
    severity=WARNING,
    cases=(CauseCase("gpu-socket", "RDMA NICs on the other CPU", by=RECORDED),),
)
