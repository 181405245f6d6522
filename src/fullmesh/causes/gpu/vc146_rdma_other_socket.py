"""all RDMA cards are on another processor than the GPUs (warning)

A board with two processors has slots of each. Where GPUs and RDMA cards share no processor every message crosses the
way between the two, and GPUDirect RDMA is slow there or not used at all.

**Prove:** nvidia-smi topo -m (SYS between GPU and NIC); cat /sys/bus/pci/devices/*/numa_node

**Fix:** Move the card to a slot of the GPUs' processor.

**Source:** NCCL documentation, Environment Variables, NCCL_NET_GDR_LEVEL
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-146",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-socket", "RDMA cards on the other processor", by=RECORDED),),
)
