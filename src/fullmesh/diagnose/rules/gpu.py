"""GPUs and RDMA: what differs between the nodes or is down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import cast

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.observed.survey import GpuSurvey, RdmaPort
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify import card_faults

UP = "ACTIVE"


def summarize_gpus(look: ClusterEvidence, name: str) -> dict[str, str]:
    """What must be alike; nothing where GPUs are hidden or nvidia-smi fails, faults of their own (VC-131, VC-132)."""
    held = cast("GpuSurvey", look.survey(name).get("gpus", {}))
    if "present" not in held or held.get("failed") or card_faults.has_hidden_gpus(held):
        return {}
    return {
        "GPUs": str(len(held["cards"])),
        "driver": held.get("driver", "") if held["present"] else "",
        "model": join_names(sorted({card["name"] for card in held["cards"]})),
    }


def rule_gpu_inventory(look: ClusterEvidence) -> Iterator[Finding]:
    """All nodes have as many GPUs of one kind, with one driver."""
    table = {name: row for name in look.nodes if (row := summarize_gpus(look, name))}
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
            fix=f"on {odd[0]}: nvidia-smi; dmesg | grep -i NVRM; install the others' driver",
            severity=WARNING
            if what == "model"
            else ERROR,  # mixed models work, at the pace of the slowest
        )
        return


def group_rdma_ports(look: ClusterEvidence) -> dict[tuple[str, int], dict[str, RdmaPort]]:
    """Device and port -> node -> what it has there."""
    found: dict[tuple[str, int], dict[str, RdmaPort]] = {}
    for name in look.nodes:
        for port in look.survey(name).get("rdma", []):
            found.setdefault((port["device"], port["port"]), {})[name] = port
    return found


def rule_rdma_ports(look: ClusterEvidence) -> Iterator[Finding]:
    """A port that is up on one node is up on all: NCCL falls back to TCP in silence."""
    for (device, number), held in group_rdma_ports(look).items():
        up = [name for name, port in held.items() if port["state"] == UP]
        down = [name for name, port in held.items() if port["state"] != UP]
        if not up or not down:
            continue
        port = held[down[0]]
        yield Finding(
            "DG-249",
            "L1",
            f"the RDMA port {device}/{number} is {port['state'] or 'not up'} on {join_names(down)} and "
            f"up on {join_names(up)}",
            node=down[0],
            peer=join_names(up),
            seen=f"{port['state']}, physically {port['physical']}",
            expected=UP,
            fix=f"on {down[0]}: ibstat {device}; look at cable, switch port and subnet manager",
        )


def describe_gid_types(port: RdmaPort) -> str:
    """Link layer and types of GIDs of a port."""
    return (
        f"{port['layer']}: {join_names(sorted({gid['type'] for gid in port['gids']})) or 'no GID'}"
    )


def rule_gid_types(look: ClusterEvidence) -> Iterator[Finding]:
    """RDMA ports of one name speak alike: a RoCE v2 GID on one end and none on the other never connects."""
    for (device, number), held in group_rdma_ports(look).items():
        kinds = {
            name: describe_gid_types(port) for name, port in held.items() if port["state"] == UP
        }
        if len(set(kinds.values())) < 2:  # noqa: PLR2004 (two that differ)
            continue
        usual = Counter(kinds.values()).most_common(1)[0][0]
        odd = [name for name, kind in kinds.items() if kind != usual]
        yield Finding(
            "DG-118",
            "L1",
            f"the RDMA port {device}/{number} of {join_names(odd)} has other GIDs than the others'",
            node=odd[0],
            peer=join_names([n for n in kinds if n not in odd]),
            seen=kinds[odd[0]],
            expected=usual,
            fix=f"on {odd[0]}: show_gids; give {device}'s network interface its IP address; leave "
            f"NCCL_IB_GID_INDEX unset",
        )


def rule_interface_speeds(look: ClusterEvidence) -> Iterator[Finding]:
    """The cluster interfaces negotiated one speed."""
    held = {}
    for name in look.nodes:
        card = look.card(name, look.cluster_card(name))
        if card and card["physical"] and card["speed"] > 0:
            held[name] = card["speed"]
    if len(set(held.values())) < 2:  # noqa: PLR2004 (two that differ)
        return
    best = max(held.values())
    odd = [name for name, speed in held.items() if speed != best]
    yield Finding(
        "DG-239",
        "L1",
        f"the cluster interface of {join_names(odd)} runs at {held[odd[0]]} Mbit/s, the others at {best}",
        node=odd[0],
        peer=join_names([n for n in held if n not in odd]),
        seen=f"{held[odd[0]]} Mbit/s",
        expected=f"{best} Mbit/s",
        fix=f"on {odd[0]}: ethtool {look.cluster_card(odd[0])}; look at the cable and the switch port",
        severity=WARNING,
    )


RULES = (rule_gpu_inventory, rule_rdma_ports, rule_gid_types, rule_interface_speeds)
