"""Read the GPUs of the nodes for the checks before a job.

Sources: NVML's API reference (return codes, compute modes, clock event reasons, fabric states), NVIDIA's deployment
guides on memory error management (row remapping) and fabric manager, the MIG user guide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from fullmesh.observed.gpu import AmdGpu, GpuCard
from fullmesh.observed.survey import GpuSurvey
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.model import ClusterObservations

# Role cluster_env writes this file from cluster_env_extra, and would write it again.
OURS = "/etc/fullmesh/env"


@dataclass(frozen=True)
class GpuNodeFacts:
    """The facts about a node with GPUs.

    Attributes:
        gpus: from the survey.
        busy: a distributed job runs on the node.
        rdma: a port of an RDMA NIC is up.
    """

    gpus: GpuSurvey
    busy: bool = False
    rdma: bool = False


def get_gpu_survey(seen: ClusterObservations, name: str) -> GpuSurvey:
    """Return the survey of a node's GPUs, or {}."""
    return cast("GpuSurvey", seen.survey(name).get("gpus", {}))


def list_gpus(seen: ClusterObservations, name: str) -> list[GpuCard]:
    """List a node's GPUs, as nvidia-smi shows them."""
    return get_gpu_survey(seen, name).get("cards", [])


def list_amd_gpus(seen: ClusterObservations, name: str) -> list[AmdGpu]:
    """List a node's GPUs of AMD's. Without a torch for ROCm, no job uses them, and that is intended."""
    return get_gpu_survey(seen, name).get("amd", [])


def describe_amd_gpus(seen: ClusterObservations, name: str) -> str:
    """Describe ``8 x AMD Instinct MI300X``, or ``2 x AMD 0x1586`` if the driver does not know the product."""
    models = Counter(gpu["name"] or f"AMD {gpu['device']}" for gpu in list_amd_gpus(seen, name))
    return join_names([f"{times} x {model}" for model, times in sorted(models.items())])


def has_gpus(seen: ClusterObservations, name: str) -> bool:
    """Return whether the driver or the bus shows a GPU. One without a driver counts, because it is unused."""
    held = get_gpu_survey(seen, name)
    return bool(held.get("present") or held.get("pci"))


def describe_gpus(seen: ClusterObservations, name: str) -> str:
    """Describe ``8 x NVIDIA H100``, or the GPUs on the bus if no driver works."""
    models = Counter(card["name"] for card in list_gpus(seen, name))
    on_bus = len(get_gpu_survey(seen, name).get("pci", []))
    without = f"{on_bus} GPU(s) on the PCI bus" if on_bus else "GPUs that nvidia-smi does not show"
    return join_names([f"{times} x {model}" for model, times in sorted(models.items())]) or without


def get_torch_build(seen: ClusterObservations, name: str) -> str:
    """Return the build of a node's torch: cpu, cuda, hip, or "" if unknown."""
    return str(seen.facts(name).get("software", {}).get("torch_build", ""))


def list_gpu_nodes(seen: ClusterObservations) -> list[tuple[str, GpuNodeFacts]]:
    """List the nodes whose GPUs were surveyed."""
    return [
        (
            name,
            GpuNodeFacts(
                held,
                busy=bool(seen.survey(name).get("jobs")),
                rdma=any(port["state"] == "ACTIVE" for port in seen.survey(name).get("rdma", [])),
            ),
        )
        for name in seen.plan["nodes"]
        if "present" in (held := get_gpu_survey(seen, name))
    ]


def describe_gpu_addresses(cards: list[GpuCard]) -> str:
    """List the PCI addresses of GPUs."""
    return join_names([card.get("bus", "") or card["uuid"] for card in cards])


def has_hidden_gpus(held: GpuSurvey) -> bool:
    """Return whether a working driver shows fewer GPUs than the bus has."""
    return 0 < len(held["cards"]) < len(held.get("pci", []))


def explain_fabric_manager(held: GpuSurvey) -> tuple[str, str]:
    """Return the problem of the fabric manager and its fix, or empty texts if it runs with the driver's version."""
    manager, driver = (
        held.get("fabric_manager", {"active": "", "version": ""}),
        held.get("driver", ""),
    )
    version, active = manager["version"], manager["active"]
    # A guest whose host has the switches, and a rack with separate switch trays, need none.
    if "fabric_manager" not in held or not (version or held.get("switches")):
        return "", ""
    if not version:
        cure = "install it, of exactly the driver's version (role nvidia_driver does: nvidia_driver_manage: true)"
        return "no fabric manager is installed", cure
    if driver and version != driver:
        cure = (
            f"install its version {driver}, and hold both together (role nvidia_driver does). Then systemctl restart "
            "nvidia-fabricmanager"
        )
        return (
            f"the fabric manager is {version}, the driver {driver}: it only starts with the driver's version",
            cure,
        )
    if active != "active":
        cure = "systemctl enable --now nvidia-fabricmanager. If it fails: journalctl -u nvidia-fabricmanager"
        return f"the fabric manager does not run ({active or 'its unit is not known'})", cure
    return "", ""


def find_numa_faults(node: str, box: GpuNodeFacts) -> Iterator[Finding]:
    """Find nodes whose RDMA NICs are all on a different CPU than the GPUs. The firmware reports -1 if it is unknown."""
    where = {
        kind: {path["numa"] for path in box.gpus.get("paths", []) if path["kind"] == kind}
        for kind in ("gpu", "rdma")
    }
    known = where["gpu"] and where["rdma"] and -1 not in where["gpu"] | where["rdma"]
    if box.rdma and known and not where["gpu"] & where["rdma"]:
        gpus, cards = (join_names([str(one) for one in sorted(where[kind])]) for kind in where)
        yield Finding(
            "VC-146",
            "L1",
            f"all RDMA NICs of {node} are on a different CPU than its GPUs, so messages cross the link between CPUs",
            node=node,
            seen=f"GPUs on NUMA node {gpus}, RDMA NICs on {cards}",
            expected="one in common",
            fix=f"on {node}: move the NIC to a slot of the GPUs' CPU (see the board's manual)",
            severity=WARNING,
            check=f"on {node}: nvidia-smi topo -m",
        )


def explain_unready_fabric(held: GpuSurvey) -> tuple[list[GpuCard], str, str]:
    """Explain why the NVLink fabric is not set up: the GPUs that report it, the problem and its fix."""
    late = [card for card in held["cards"] if card.get("fabric") in ("In Progress", "Not Started")]
    # a fabric stays set up until a reset, and GPUs older than Hopper do not report it
    up = any(card.get("fabric") == "Completed" for card in held["cards"])
    why, cure = explain_fabric_manager(held)
    if late or (why and held.get("switches") and not up):
        return late, why, cure
    return [], "", ""
