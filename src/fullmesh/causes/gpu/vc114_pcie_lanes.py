"""A GPU has fewer PCIe lanes than others of its model (warning)

A GPU that is not seated properly, or a faulty riser, negotiates fewer lanes. Every copy to and from
this GPU is slower, and all ranks wait for it.

**Prove:** nvidia-smi -q -d PCIE && lspci -vv | grep LnkSta

**Fix:** Reseat the GPU, or replace its riser.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.foreign_text import parse_decimal
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.cards import list_gpus
from fullmesh.verify.model import ClusterObservations


def parse_pcie_lanes(text: str) -> int:
    """Return the lanes of a PCIe link, from ``16x``."""
    text = text.removesuffix("x")
    return parse_decimal(text) or 0


def rule_pcie_width(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that a GPU has as many PCIe lanes as others of its model, and at least a quarter of its maximum.

    Fewer than the maximum is not a fault: a T4 and an A10G on EC2 have 8 of 16 by design.
    """
    lanes: dict[str, int] = {}
    for name in seen.plan["nodes"]:
        for gpu in list_gpus(seen, name):
            lanes[gpu["name"]] = max(
                lanes.get(gpu["name"], 0), parse_pcie_lanes(gpu.get("width", ""))
            )
    for name in seen.plan["nodes"]:
        for gpu in list_gpus(seen, name):
            have, usual = parse_pcie_lanes(gpu.get("width", "")), lanes[gpu["name"]]
            least = max(usual, parse_pcie_lanes(gpu.get("width_most", "")) // 4)
            if 0 < have < least:
                yield Finding(
                    "VC-114",
                    "L1",
                    f"the GPU {gpu['bus']} of {name} has {have} PCIe lanes, others of its model {usual}",
                    node=name,
                    seen=f"{have} lanes",
                    expected=f"{least} lanes",
                    check=f"on {name}: nvidia-smi -q -d PCIE && lspci -vv | grep LnkSta",
                    fix=f"on {name}: reseat the GPU or riser",
                    severity=WARNING,
                )


CAUSE = Cause(
    "VC-114",
    __doc__,
    find=rule_pcie_width,
    severity=WARNING,
    cases=(CauseCase("gpu-lanes", "four PCIe lanes of sixteen", by=RECORDED),),
)
