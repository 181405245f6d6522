"""The GPUs of a node have fewer NVLinks than the same GPUs on other nodes (warning)

An NVLink bridge is a separate part. If it is missing or loose, the driver reports no error: the
GPUs have no NVLink there, and NCCL uses PCIe. The number of links on the other nodes is the
expected one.

**Prove:** nvidia-smi topo -m (NV4 between 2 GPUs with a bridge, PHB or SYS without)

**Fix:** Switch the machine off, then install or reseat the bridge.

**Source:** NVIDIA, nvidia-smi documentation, topo and nvlink
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.cards import list_gpu_nodes
from fullmesh.verify.model import ClusterObservations


def find_missing_nvlinks(seen: ClusterObservations) -> Iterator[Finding]:
    """Find nodes with fewer NVLinks than others with the same GPUs. A missing bridge is not reported otherwise."""
    table = {node: box.gpus for node, box in list_gpu_nodes(seen)}
    kinds: dict[tuple[str, ...], dict[str, list[int]]] = {}
    for node, held in table.items():
        if held["cards"]:
            models = tuple(sorted(card["name"] for card in held["cards"]))
            counts = sorted(card.get("links", 0) for card in held["cards"])
            kinds.setdefault(models, {})[node] = counts
    for held_by in kinds.values():
        most = max(held_by.values(), key=sum)
        for node, counts in held_by.items():
            if sum(counts) < sum(most):
                yield Finding(
                    "VC-145",
                    "L1",
                    f"the GPUs of {node} have {sum(counts)} NVLinks, the same GPUs of other nodes have {sum(most)}",
                    node=node,
                    seen=f"{sum(counts)} NVLinks",
                    expected=f"{sum(most)} NVLinks",
                    fix=f"on {node}: install or reseat the NVLink bridge",
                    severity=WARNING,
                    check=f"on {node}: nvidia-smi nvlink -s && nvidia-smi topo -m",
                )


CAUSE = Cause(
    "VC-145",
    __doc__,
    find=find_missing_nvlinks,
    severity=WARNING,
    cases=(CauseCase("gpu-bridge", "six NVLinks of a GPU are missing", by=RECORDED),),
)
