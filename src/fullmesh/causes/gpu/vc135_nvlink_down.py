"""A GPU has NVLinks that are down (warning)

NCCL chooses the paths between GPUs at the start of a job, and uses only links that are up. Fewer
links make its rings slower, or send the data over PCIe.

**Prove:** nvidia-smi nvlink -s && nvidia-smi nvlink -e

**Fix:** Reboot the node. If the links stay down, have the baseboard or the NVLink bridge replaced.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.cards import describe_gpu_addresses, list_gpu_nodes
from fullmesh.verify.model import ClusterObservations


def find_inactive_nvlinks(seen: ClusterObservations) -> Iterator[Finding]:
    """Find GPUs with fewer active NVLinks than the best of their model. Some links are unused by design."""
    table = {node: box.gpus for node, box in list_gpu_nodes(seen)}
    least: dict[str, int] = {}
    for held in table.values():
        for gpu in held["cards"]:
            if "links" in gpu:
                down = gpu.get("links_down", 0)
                least[gpu["name"]] = min(least.get(gpu["name"], down), down)
    for node, held in table.items():
        bad = [c for c in held["cards"] if c.get("links_down", 0) > least.get(c["name"], 0)]
        if bad:
            down = max(gpu.get("links_down", 0) for gpu in bad)
            yield Finding(
                "VC-135",
                "L1",
                f"{down} of {bad[0].get('links', 0)} NVLinks of {describe_gpu_addresses(bad)} on {node} are down: "
                "NCCL routes around them",
                node=node,
                seen=f"{down} inactive",
                expected=f"{least[bad[0]['name']]} inactive",
                fix=f"reboot {node}. If the links stay down, reseat the GPU or its bridge",
                severity=WARNING,
                check=f"on {node}: nvidia-smi nvlink -s && nvidia-smi nvlink -e && dmesg | grep -i nvlink",
            )


CAUSE = Cause(
    "VC-135",
    __doc__,
    find=find_inactive_nvlinks,
    severity=WARNING,
    cases=(CauseCase("gpu-nvlink", "two of 18 NVLinks are down", by=RECORDED),),
)
