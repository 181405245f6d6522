"""GPUs or the driver differ between the nodes

On a node with fewer GPUs, ranks share one or do not start. With different drivers, NCCL reports
'message truncated' or hangs. A GPU with an Xid hangs in its first kernel.

**Prove:** nvidia-smi && dmesg | grep -i xid

**Fix:** Install the same driver on all nodes. Leave a broken GPU out of jobs.

**Source:** nccl#1328
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import cast

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.observed.survey import GpuSurvey
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.cards import has_hidden_gpus


def summarize_gpus(evidence: ClusterEvidence, name: str) -> dict[str, str]:
    """Return the values to compare. Empty if GPUs are hidden or nvidia-smi fails, which VC-131 and VC-132 report."""
    held = cast("GpuSurvey", evidence.survey(name).get("gpus", {}))
    if "present" not in held or held.get("failed") or has_hidden_gpus(held):
        return {}
    return {
        "GPUs": str(len(held["cards"])),
        "driver": held.get("driver", "") if held["present"] else "",
        "model": join_names(sorted({card["name"] for card in held["cards"]})),
    }


def rule_gpu_inventory(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose GPUs or driver differ."""
    table = {name: row for name in evidence.nodes if (row := summarize_gpus(evidence, name))}
    for what in ("GPUs", "driver", "model"):
        held = {name: row[what] for name, row in table.items() if row[what] or what == "GPUs"}
        if len(set(held.values())) < 2:  # noqa: PLR2004 (two that differ)
            continue
        usual = Counter(held.values()).most_common(1)[0][0]
        if what == "GPUs" and usual == "0":
            usual = max(held.values())
        odd = [name for name, value in held.items() if value != usual]
        yield Finding(
            "DG-149",
            "L1",
            f"{what}: {held[odd[0]] or 'none'} on {join_names(odd)}, {usual} on the others",
            node=odd[0],
            peer=join_names([n for n in held if n not in odd]),
            seen=held[odd[0]] or "none",
            expected=usual,
            check=f"on {odd[0]}: nvidia-smi && dmesg | grep -i NVRM",
            fix=f"on {odd[0]}: install the other nodes' driver",
            severity=WARNING
            if what == "model"
            else ERROR,  # mixed models work, at the pace of the slowest
        )
        return


CAUSE = Cause(
    "DG-149",
    __doc__,
    find=rule_gpu_inventory,
    needs=("gpus",),
    weight=400,
    explains=(Explains(("VC-111", "VC-719", "VC-711"), has_same_node),),
    cases=(CauseCase("gpus", "one node shows fewer GPUs, or another driver", by=RECORDED),),
)
