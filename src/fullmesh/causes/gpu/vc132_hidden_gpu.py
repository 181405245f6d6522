"""A GPU is on the PCI bus, and the driver does not list it

The driver could not initialize the GPU, or lost it. Ranks that use its number fail with `invalid
device ordinal`.

**Prove:** lspci -d 10de: && nvidia-smi -L && dmesg | grep -i -E 'nvrm|xid'

**Fix:** Switch the machine off and on. If the GPU is still missing, check its power cable and seat,
or replace it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.cards import has_hidden_gpus, list_gpu_nodes
from fullmesh.verify.model import ClusterObservations


def find_hidden_gpus(seen: ClusterObservations) -> Iterator[Finding]:
    """Find GPUs on the bus that the driver does not show."""
    for node, box in list_gpu_nodes(seen):
        held = box.gpus
        shown = {card.get("bus", "").lower()[-12:] for card in held["cards"]}
        dark = [one["bus"] for one in held.get("pci", []) if one["bus"].lower()[-12:] not in shown]
        if dark and has_hidden_gpus(held):
            yield Finding(
                "VC-132",
                "L1",
                f"the driver of {node} shows {len(held['cards'])} of {len(held['pci'])} GPUs: {join_names(dark)} is "
                "missing",
                node=node,
                seen=f"{len(held['cards'])} GPUs",
                expected=f"{len(held['pci'])} GPUs",
                fix=f"switch {node} off and on. If the GPU is still missing, reseat or replace it",
                check=f"on {node}: dmesg | grep -i -E 'nvrm|xid' and lspci -vs {dark[0]} (rev ff: it fell off the bus)",
            )


CAUSE = Cause(
    "VC-132",
    __doc__,
    find=find_hidden_gpus,
    cases=(CauseCase("gpu-hidden", "eight on the bus, the driver shows seven", by=RECORDED),),
)
