"""The compute mode of a GPU is Prohibited, so no program can use it

No program can create a CUDA context: `CUDA-capable device(s) is/are busy or unavailable`.

**Prove:** nvidia-smi -q -d COMPUTE

**Fix:** nvidia-smi --compute-mode=DEFAULT
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding
from fullmesh.verify.cards import describe_gpu_addresses, list_gpu_nodes
from fullmesh.verify.model import ClusterObservations


def find_prohibited_gpus(seen: ClusterObservations) -> Iterator[Finding]:
    """Find GPUs on which no program may compute."""
    for node, box in list_gpu_nodes(seen):
        held = box.gpus
        shut = [card for card in held["cards"] if card.get("compute_mode") == "Prohibited"]
        if shut:
            yield Finding(
                "VC-138",
                "L1",
                f"no program may compute on {describe_gpu_addresses(shut)} of {node}",
                node=node,
                seen="compute mode: Prohibited",
                expected="Default",
                fix=f"on {node}: nvidia-smi --compute-mode=DEFAULT",
            )


CAUSE = Cause(
    "VC-138",
    __doc__,
    find=find_prohibited_gpus,
    weight=410,
    explains=(Explains(("VC-719", "VC-711", "VC-712"), has_same_node),),
    cases=(CauseCase("gpu-prohibited", "compute mode Prohibited", by=RECORDED),),
)
