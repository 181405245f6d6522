"""Find faults that single GPUs report and that stop a job or slow it down, for verification and diagnosis.

Sources: NVML's API reference (return codes, compute modes, clock event reasons, fabric states), NVIDIA's deployment
guides on memory error management (row remapping) and fabric manager, the MIG user guide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fullmesh.observed.gpu import GpuCard
from fullmesh.observed.survey import GpuSurvey
from fullmesh.result.findings import WARNING, Finding, join_names

# On an idle GPU, the driver itself uses less than this.
IDLE_MIB = 512
MISMATCH, LOST, SILENT, EMPTY = (
    "version mismatch",
    "is lost",
    "couldn't communicate",
    "No devices were found",
)
SLOWED = {
    "hw_slowdown": "the hardware",
    "hw_thermal_slowdown": "heat",
    "hw_power_brake_slowdown": "the power supply's brake",
    "sw_thermal_slowdown": "heat (held by the driver)",
}


LATE = (
    "journalctl -u nvidia-fabricmanager (it needs the driver's own version: role nvidia_driver installs both "
    "together) and dmesg | grep -i -E 'nvswitch|nvlink'"
)


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


def parse_mib(text: str) -> int:
    """Return the MiB of ``28610 MiB``, or 0 if there is no value."""
    found = re.match(r"(\d+) MiB$", text)
    return int(found[1]) if found else 0


def describe_gpu_addresses(cards: list[GpuCard]) -> str:
    """List the PCI addresses of GPUs."""
    return join_names([card.get("bus", "") or card["uuid"] for card in cards])


def find_silent_driver(node: str, held: GpuSurvey) -> Iterator[Finding]:
    """Find a driver whose nvidia-smi does not work."""
    said, loaded = held.get("said", ""), held.get("loaded", "") or "unknown"
    check = ""
    if "said" not in held:
        return
    if MISMATCH in said:
        why = f"the libraries of NVIDIA's driver on {node} have a different version than its kernel module"
        why += f" ({loaded}), because they were updated while it was loaded"
        fix = "reboot it, or end all programs on the GPUs and run modprobe -r nvidia_uvm nvidia_drm nvidia_modeset "
        fix += "nvidia && modprobe nvidia. Role nvidia_driver keeps the packages at one version"
    elif LOST in said:
        why = f"a GPU of {node} fell off the bus: {said}"
        check = "dmesg | grep -i xid (79 means the same)"
        fix = "switch it off and on, then reseat or replace the GPU"
    elif SILENT in said:
        why = f"NVIDIA's driver is installed on {node}, but its kernel module is not loaded"
        check = "dmesg | grep -i -E 'nvrm|nvidia'; dkms status; mokutil --sb-state; lsmod | grep nouveau"
        fix = "modprobe nvidia. If that fails, install the module for this kernel (role nvidia_driver)"
    elif EMPTY in said:
        why = f"NVIDIA's driver on {node} could start none of its GPUs"
        check = "dmesg | grep -i nvrm (RmInitAdapter failed)"
        fix = "reconnect the power cables, or install a driver for these GPUs"
    else:
        why = f"nvidia-smi does not work on {node}: {said or 'it prints nothing'}"
        check = "nvidia-smi && dmesg | grep -i nvrm"
        fix = "install the driver again (role nvidia_driver), then reboot"
    yield Finding(
        "VC-131",
        "L1",
        why,
        node=node,
        seen=said or "no answer",
        expected="nvidia-smi lists the GPUs",
        fix=f"on {node}: {fix}",
        check=f"on {node}: {check}" if check else "",
    )


def has_hidden_gpus(held: GpuSurvey) -> bool:
    """Return whether a working driver shows fewer GPUs than the bus has."""
    return 0 < len(held["cards"]) < len(held.get("pci", []))


def find_hidden_gpus(node: str, held: GpuSurvey) -> Iterator[Finding]:
    """Find GPUs on the bus that the driver does not show."""
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


def find_memory_faults(node: str, held: GpuSurvey) -> Iterator[Finding]:
    """Find memory rows that could not be remapped, or that need a reset for it."""
    bad = [card for card in held["cards"] if card.get("remap_failed") == "Yes"]
    if bad:
        yield Finding(
            "VC-133",
            "L1",
            f"broken memory of {describe_gpu_addresses(bad)} on {node} could not be replaced by spare rows: the GPU "
            "is worn out",
            node=node,
            seen="remapped_row_failure: Yes",
            expected="No",
            fix=f"on {node}: exclude the GPU (CUDA_VISIBLE_DEVICES), and replace it",
            check=f"on {node}: nvidia-smi -q -d ROW_REMAPPER",
        )
    due = [card for card in held["cards"] if card.get("remap_pending") == "Yes"]
    if due:
        yield Finding(
            "VC-134",
            "L1",
            f"broken memory of {describe_gpu_addresses(due)} on {node} is replaced by spare rows at the next reset "
            "only",
            node=node,
            seen="remapped_row_pending: Yes",
            expected="No",
            fix=f"on {node}, without any program on the GPUs: nvidia-smi --gpu-reset, or reboot",
            severity=WARNING,
        )


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


def find_fabric_faults(node: str, held: GpuSurvey) -> Iterator[Finding]:
    """Find GPUs behind NVSwitches whose fabric is not set up by the fabric manager."""
    late = [card for card in held["cards"] if card.get("fabric") in ("In Progress", "Not Started")]
    # a fabric stays set up until a reset, and GPUs older than Hopper do not report it
    up = any(card.get("fabric") == "Completed" for card in held["cards"])
    why, cure = explain_fabric_manager(held)
    states = f"fabric state: {late[0].get('fabric', '')} on {len(late)} GPU(s)" if late else ""
    if late or (why and held.get("switches") and not up):
        yield Finding(
            "VC-136",
            "L1",
            f"the NVLink fabric of {node} is not set up{': ' * bool(why)}{why}. CUDA starts on none of its GPUs "
            "(error 802, system not yet initialized)",
            node=node,
            seen=states or why,
            expected="Completed",
            fix=f"on {node}: {cure or LATE}",
        )
    elif why:
        yield Finding(
            "VC-147",
            "L1",
            f"on {node} {why}: after the next reset of a GPU, or the next boot, CUDA starts on none (error 802)",
            node=node,
            seen=f"fabric manager {held['fabric_manager']['version'] or 'none'}, {held['fabric_manager']['active']}",
            expected=f"active, version {held.get('driver', '')}",
            fix=f"on {node}: {cure}",
            severity=WARNING,
        )


def find_throttled_gpus(node: str, held: GpuSurvey) -> Iterator[Finding]:
    """Find GPUs with reduced clocks."""
    slow = [card for card in held["cards"] if card.get("slowed")]
    if slow:
        why = sorted({SLOWED.get(one, one) for card in slow for one in card.get("slowed", [])})
        yield Finding(
            "VC-137",
            "L1",
            f"the clocks of {describe_gpu_addresses(slow)} on {node} are reduced by {join_names(why)}: every rank "
            "waits for it",
            node=node,
            seen=join_names(sorted({one for card in slow for one in card.get("slowed", [])})),
            expected="none",
            fix=f"repair the fans, air flow or power supply of {node}",
            severity=WARNING,
            check=f"on {node}: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
        )


def find_mode_faults(node: str, held: GpuSurvey) -> Iterator[Finding]:
    """Find modes that exclude jobs or separate GPUs."""
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
    parted = [card for card in held["cards"] if card.get("mig") == "Enabled"]
    if parted:
        yield Finding(
            "VC-139",
            "L1",
            f"MIG is on for {describe_gpu_addresses(parted)} of {node}: a process sees one slice of a GPU, and slices "
            "only reach "
            "each other through the host",
            node=node,
            seen="MIG mode: Enabled",
            expected="Disabled, for jobs over several GPUs",
            fix=f"on {node}, without any program on the GPUs: nvidia-smi --multi-instance-gpu=0",
            severity=WARNING,
        )


def find_occupied_gpus(node: str, held: GpuSurvey) -> Iterator[Finding]:
    """Find memory in use although no distributed job runs."""
    full = [card for card in held["cards"] if parse_mib(card.get("memory_used", "")) > IDLE_MIB]
    if full:
        used = max(parse_mib(card.get("memory_used", "")) for card in full)
        yield Finding(
            "VC-140",
            "L1",
            f"programs use memory of {describe_gpu_addresses(full)} on {node} (up to {used} MiB), although no "
            "distributed job runs there",
            node=node,
            seen=f"{used} MiB",
            expected=f"less than {IDLE_MIB} MiB",
            fix=f"on {node}: end the programs that use the GPUs",
            severity=WARNING,
            check=f"on {node}: nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv; "
            "fuser -v /dev/nvidia*",
        )


def find_pcie_faults(node: str, box: GpuNodeFacts) -> Iterator[Finding]:
    """Find GPUs and RDMA NICs that only reach each other through the CPU or the host's memory."""
    paths = box.gpus.get("paths", [])
    bridges = sorted({bridge for path in paths for bridge in path["redirecting"]})
    if len(paths) > 1 and bridges:
        yield Finding(
            "VC-141",
            "L1",
            f"PCIe switches of {node} route traffic between GPUs and RDMA NICs through the CPU: "
            f"ACS is on for {join_names(bridges)}",
            node=node,
            seen=f"ACS redirects on {len(bridges)} port(s)",
            expected="none",
            fix=f"on {node}: ACS off in the firmware, or after each boot for every port: setpci -s {bridges[0]} "
            "ECAP_ACS+0x6.w=0000 (virtual machines that are given devices need ACS)",
            severity=WARNING,
        )
    translated = [path["bus"] for path in paths if path["iommu"].startswith("DMA")]
    if len(paths) > 1 and translated:
        yield Finding(
            "VC-142",
            "L1",
            f"the IOMMU of {node} translates every access of {join_names(translated)}: peer-to-peer is slow or hangs",
            node=node,
            seen=f"IOMMU group type {next(p['iommu'] for p in paths if p['iommu'].startswith('DMA'))}",
            expected="identity, or no IOMMU",
            fix=f"on {node}: add iommu.passthrough=1 to the kernel's command line (or disable the IOMMU in the "
            "firmware), and reboot",
            severity=WARNING,
        )
    yield from find_numa_faults(node, box)
    if box.rdma and box.gpus.get("direct") == "" and box.gpus["cards"]:
        yield Finding(
            "VC-143",
            "L1",
            f"RDMA NICs of {node} only reach the GPUs' memory through the host's: neither dma_buf nor nvidia_peermem",
            node=node,
            seen="no GPUDirect RDMA",
            expected="dma_buf",
            fix=f"on {node}: use the driver's open modules with Linux 5.12 or newer (role nvidia_driver: "
            "nvidia_driver_open: true). With other modules: modprobe nvidia_peermem",
            severity=WARNING,
        )


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


def find_missing_nvlinks(table: Mapping[str, GpuSurvey]) -> Iterator[Finding]:
    """Find nodes with fewer NVLinks than others with the same GPUs. A missing bridge is not reported otherwise."""
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


def find_inactive_nvlinks(table: Mapping[str, GpuSurvey]) -> Iterator[Finding]:
    """Find GPUs with fewer active NVLinks than the best of their model. Some links are unused by design."""
    least: dict[str, int] = {}
    for held in table.values():
        for card in held["cards"]:
            if "links" in card:
                down = card.get("links_down", 0)
                least[card["name"]] = min(least.get(card["name"], down), down)
    for node, held in table.items():
        bad = [c for c in held["cards"] if c.get("links_down", 0) > least.get(c["name"], 0)]
        if bad:
            down = max(card.get("links_down", 0) for card in bad)
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


ALONE = (
    find_silent_driver,
    find_hidden_gpus,
    find_memory_faults,
    find_fabric_faults,
    find_throttled_gpus,
    find_mode_faults,
)


def find_gpu_faults(boxes: Mapping[str, GpuNodeFacts]) -> Iterator[Finding]:
    """Return all faults of the GPUs of surveyed nodes."""
    for node, box in boxes.items():
        for one in ALONE:
            yield from one(node, box.gpus)
        if not box.busy:
            yield from find_occupied_gpus(node, box.gpus)
        yield from find_pcie_faults(node, box)
    table = {node: box.gpus for node, box in boxes.items()}
    yield from find_inactive_nvlinks(table)
    yield from find_missing_nvlinks(table)
