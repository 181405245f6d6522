"""MIG is on (warning)

With MIG, a process sees one slice of one GPU. Slices have no direct connection to each other,
neither NVLink nor PCIe peer-to-peer.

**Prove:** nvidia-smi -L

**Fix:** nvidia-smi --multi-instance-gpu=0 on nodes that train over several GPUs. MIG is for small
jobs that share a GPU.

**Source:** NVIDIA, Multi-Instance GPU User Guide
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.cards import describe_gpu_addresses, list_gpu_nodes
from fullmesh.verify.model import ClusterObservations


def find_mig_gpus(seen: ClusterObservations) -> Iterator[Finding]:
    """Find GPUs that are split by MIG."""
    for node, box in list_gpu_nodes(seen):
        held = box.gpus
        parted = [card for card in held["cards"] if card.get("mig") == "Enabled"]
        if parted:
            yield Finding(
                "VC-139",
                "L1",
                f"MIG is on for {describe_gpu_addresses(parted)} of {node}: a process sees one slice of a GPU, and "
                "slices only reach each other through the host",
                node=node,
                seen="MIG mode: Enabled",
                expected="Disabled, for jobs over several GPUs",
                fix=f"on {node}, without any program on the GPUs: nvidia-smi --multi-instance-gpu=0",
                severity=WARNING,
            )


CAUSE = Cause(
    "VC-139",
    __doc__,
    find=find_mig_gpus,
    severity=WARNING,
    cases=(CauseCase("gpu-mig", "MIG is on", by=RECORDED),),
)
