"""Read from NCCL's own output which network it used between the nodes, and why it did not use a better one.

NCCL looks for RDMA on each node by itself. If it finds none, it uses TCP, without a message at its default level
(NVIDIA/nccl, src/plugin/net.cc. "NET/IB : No device found" is INFO). It never checks the choice of other nodes: if
one node uses InfiniBand and another one TCP, both wait forever (NVIDIA/nccl#234, #878).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from fullmesh.contract import convert_rank_steps
from fullmesh.ec2 import efa
from fullmesh.observed.survey import JobVariable, RdmaPort
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.cards import OURS, GpuNodeFacts, find_numa_faults, get_gpu_survey, list_gpus
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.rank_ends import iterate_ranks

FIRST_NUMBER = re.compile(r"\A\d{1,4}(?:\.\d{1,3})?")
OLD_CODE_MOST = 5.0  # GT/s: generations 1 and 2 send 10 bits for 8, later ones 130 for 128
UP = "ACTIVE"
SOCKET = "Socket"
NETWORK = re.compile(r"Using network ([A-Za-z0-9_-]+(?: [A-Za-z0-9_-]+)*)\s*$")
DEVICES = re.compile(r"NET/(?:IB|Socket) : Using (.*)$")
OFI = re.compile(r"NET/OFI Selected [Pp]rovider is (\S+?),? ")
NO_LIBRARY = re.compile(r"Failed to open (libibverbs\S*)")
NO_DEVICE = "NET/IB : No device found"
# NCCL's own line shows the path of a channel: NET/IB/0, or NET/IB/0/GDRDMA if the NIC accesses the GPU directly.
OVER_IB = re.compile(r" via (NET/IB\S*)")
DIRECT = "/GDRDMA"
DIRECT_OFF = re.compile(r"GPU Direct RDMA Disabled for HCA \d+ '([^']+)'")
# NVIDIA's GPUDirect RDMA guide: data center and workstation GPUs only.
NEVER_DIRECT = "GeForce"


@dataclass
class NcclReport:
    """NCCL's output on a node.

    Attributes:
        said: its lines, of all ranks on the node.
        settings: settings that override its choices, with their files.
        verbs: the number of RDMA devices with a device file, None if unknown.
        shut: device files that only root may open.
        connected: the first collective completed on every rank.
    """

    said: list[str] = field(default_factory=list)
    settings: dict[str, JobVariable] = field(default_factory=dict)
    verbs: int | None = None
    shut: Sequence[str] = ()
    connected: bool = True


@dataclass(frozen=True)
class RdmaObstacle:
    """The reason why NCCL does not use RDMA on a node: the cause, the value seen, and the fix."""

    cause: str
    seen: str
    fix: str


def parse_nccl_network(said: Sequence[str]) -> dict[str, str]:
    """Parse NCCL's network and devices from its own lines (NCCL_DEBUG=INFO)."""
    found = {"network": "", "devices": ""}
    for line in said:
        for name, pattern in (("network", NETWORK), ("devices", DEVICES), ("devices", OFI)):
            match = pattern.search(line)
            if match and not found[name]:
                found[name] = match[1].strip()
    return found


def collect_nccl_reports(seen: ClusterObservations) -> dict[str, NcclReport]:
    """Map each node to NCCL's output on it, if there was any."""
    found: dict[str, NcclReport] = {}
    for name, _, report, _ in iterate_ranks(seen):
        step = convert_rank_steps(report).get("nccl")
        if not step or not step.get("said"):
            continue
        held = found.setdefault(name, NcclReport())
        held.said += [line for line in step["said"] if line not in held.said]
        held.settings |= step.get("settings", {})
        held.verbs = step.get("verbs", held.verbs)
        held.shut = step.get("shut", held.shut)
        held.connected = held.connected and "seconds" in step
    return found


def find_nccl_transports(seen: ClusterObservations) -> dict[str, dict[str, str]]:
    """Map each node to the network that NCCL used."""
    return {
        name: parse_nccl_network(took.said) for name, took in collect_nccl_reports(seen).items()
    }


def find_nccl_networks(seen: ClusterObservations) -> dict[str, str]:
    """Map each node to the network's name, if NCCL printed one."""
    return {
        name: one["network"] for name, one in find_nccl_transports(seen).items() if one["network"]
    }


def list_active_rdma_ports(seen: ClusterObservations, name: str) -> list[RdmaPort]:
    """List the RDMA ports of a node that are up."""
    return [port for port in seen.survey(name).get("rdma", []) if port["state"] == UP]


def list_nccl_ports(seen: ClusterObservations, name: str) -> list[RdmaPort]:
    """List the active RDMA ports of a node that NCCL_IB_HCA selects, or all active ones without it."""
    held = seen.survey(name).get("environment", {}).get("values", {})
    hca = held.get("NCCL_IB_HCA", {"value": ""})["value"]
    ports = list_active_rdma_ports(seen, name)
    return [port for port in ports if not hca or is_port_selected(hca, port)]


def parse_first_number(text: str) -> float:
    """Return the number at the beginning of a text, or 0."""
    match = FIRST_NUMBER.match(text)
    return float(match[0]) if match else 0.0


def compute_pcie_rate(port: RdmaPort, which: str) -> float:
    """Return the rate of a PCIe link in Gbit/s. *which*: ``current`` or ``max``."""
    held = port.get("pcie", {})
    lanes = parse_first_number(held.get(f"{which}_link_width", ""))
    speed = parse_first_number(held.get(f"{which}_link_speed", ""))
    return lanes * speed * (0.8 if speed <= OLD_CODE_MOST else 128 / 130)


def format_hca_port(port: RdmaPort) -> str:
    """Format a port as in NCCL_IB_HCA: ``mlx5_0:1``."""
    return f"{port['device']}:{port['port']}"


def is_efa_node(seen: ClusterObservations, name: str) -> bool:
    """Return whether a node has an EFA, which NCCL only reaches with its plugin."""
    own = seen.survey(name).get("efa")
    return own is not None and efa.has_efa_device(own)


def describe_fast_network(seen: ClusterObservations, name: str) -> str:
    """Describe a node's network that is faster than TCP, or return ""."""
    if is_efa_node(seen, name):
        return "EFA"
    ports = [format_hca_port(port) for port in list_active_rdma_ports(seen, name)]
    return f"the RDMA port{'s' * (len(ports) > 1)} {join_names(ports)}" if ports else ""


def is_port_selected(hca: str, port: RdmaPort) -> bool:
    """Return whether NCCL_IB_HCA selects a port. The list has prefixes, ``=`` means exact names, ``^`` all others."""
    but, exact = hca.startswith("^"), hca.removeprefix("^").startswith("=")
    for one in hca.removeprefix("^").removeprefix("=").split(","):
        name, _, number = one.partition(":")
        same = port["device"] == name if exact else port["device"].startswith(name)
        if same and number in ("", str(port["port"])):
            return not but
    return but


def suggest_setting_removal(
    variable: JobVariable, name: str, node: str, seen: ClusterObservations
) -> str:
    """Suggest how to remove a setting from its source."""
    if variable["source"] == OURS:
        return (
            f"remove {name} from cluster_env_extra in the inventory. Role cluster_env then writes the right value: "
            f"{seen.apply('launch')}"
        )
    return f"on {node}: remove {name} from {variable['source']}"


def find_setting_obstacles(
    seen: ClusterObservations, name: str, took: NcclReport
) -> Iterator[RdmaObstacle]:
    """Find variables that prevent RDMA in NCCL."""

    def why(variable: str, what: str) -> RdmaObstacle:
        held = took.settings[variable]
        text = f"{variable}={held['value']}"
        return RdmaObstacle(
            f"{text} ({held['source']}) {what}",
            text,
            suggest_setting_removal(held, variable, name, seen),
        )

    held = {variable: row["value"] for variable, row in took.settings.items()}
    if held.get("NCCL_NET", "").lower() == SOCKET.lower():
        yield why("NCCL_NET", "asks for TCP")
    if held.get("NCCL_IB_DISABLE", "0").strip() not in ("", "0"):
        yield why("NCCL_IB_DISABLE", "switches RDMA off")
    hca, ports = held.get("NCCL_IB_HCA", ""), list_active_rdma_ports(seen, name)
    if hca and not any(is_port_selected(hca, port) for port in ports):
        names = join_names([format_hca_port(port) for port in ports])
        yield why("NCCL_IB_HCA", f"matches none of the active ports: {names}")


def find_node_obstacles(name: str, took: NcclReport) -> Iterator[RdmaObstacle]:
    """Find files and libraries that NCCL lacks for RDMA."""
    library = next((match for line in took.said if (match := NO_LIBRARY.search(line))), None)
    if library:
        yield RdmaObstacle(
            f"NCCL cannot open {library[1]}",
            library[0],
            f"on {name}: install libibverbs (EL) or libibverbs1 and ibverbs-providers (Ubuntu)",
        )
    if took.shut:
        yield RdmaObstacle(
            f"only root may open {join_names(took.shut)}, but neither the check's ranks nor other jobs run as root",
            join_names(took.shut),
            f"on {name}: chmod 0666 {' '.join(took.shut)}. Package rdma-core makes it permanent with a udev rule",
        )
    if took.verbs == 0:
        yield RdmaObstacle(
            "there is no /dev/infiniband/uverbs*",
            "no uverbs device",
            f"on {name}: modprobe ib_uverbs (and mlx5_ib). A container needs --device=/dev/infiniband",
        )


def explain_no_rdma(seen: ClusterObservations, name: str, took: NcclReport) -> RdmaObstacle:
    """Return the most likely reason why NCCL does not use a node's RDMA."""
    own = seen.survey(name).get("efa")
    if own is not None and efa.has_efa_device(own):
        found = efa.check_efa({name: own})
        if found:
            return RdmaObstacle(
                found[0].cause.removeprefix(f"{name}: "), found[0].seen, found[0].fix
            )
    found_here = next(
        chain(find_setting_obstacles(seen, name, took), find_node_obstacles(name, took)), None
    )
    if found_here:
        return found_here
    own_words = NO_DEVICE if any(NO_DEVICE in line for line in took.said) else ""
    cause = f"NCCL says: {own_words}" if own_words else "NCCL does not say why"
    fix = f"on {name}: ibv_devinfo -v (its library needs the NIC's provider: rdma-core, ibverbs-providers). "
    return RdmaObstacle(
        cause, own_words, fix + "Run again with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV"
    )


def rule_tcp_fallback(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that NCCL uses RDMA if every node has it, regardless of the speed of TCP."""
    names = list(seen.plan["nodes"])
    took = find_nccl_networks(seen)
    if len(names) < 2 or set(took.values()) != {SOCKET}:  # noqa: PLR2004 (one node uses no network)
        return
    if not all(describe_fast_network(seen, name) for name in names):
        return
    reports = collect_nccl_reports(seen)
    groups: dict[tuple[str, str], list[str]] = {}
    for name in took:
        why = explain_no_rdma(seen, name, reports[name])
        groups.setdefault((why.cause, why.seen), []).append(name)
    for (cause, value), nodes in groups.items():
        first = nodes[0]
        yield Finding(
            "VC-720",
            "L7",
            f"NCCL on {join_names(nodes)} uses TCP although {describe_fast_network(seen, first)} of {first} "
            f"{'are' if ', ' in describe_fast_network(seen, first) else 'is'} up: {cause}",
            node=first,
            peer=join_names([name for name in names if name != first]),
            seen=join_names([one for one in (f"Using network {SOCKET}", value) if one]),
            expected="RDMA",
            fix=explain_no_rdma(seen, first, reports[first]).fix,
            severity=WARNING,
        )


def rule_mixed_networks(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that all nodes use one network. A job of NCCL supports only one, and NCCL does not compare the nodes."""
    took = find_nccl_networks(seen)
    kinds: dict[str, list[str]] = {}
    for name, network in took.items():
        kinds.setdefault(network, []).append(name)
    if len(kinds) < 2:  # noqa: PLR2004 (two that differ)
        return
    # the nodes with TCP need the fix, else the smallest group
    least = SOCKET if SOCKET in kinds else min(kinds, key=lambda one: len(kinds[one]))
    odd = kinds[least]
    others = [name for name in took if name not in odd]
    usual = join_names(sorted({took[name] for name in others}))
    reports = collect_nccl_reports(seen)
    why = RdmaObstacle(
        "no RDMA port of it is up",
        "",
        f"on {odd[0]}: ibstat. Check cable, switch port and subnet manager",
    )
    if least != SOCKET:
        why = RdmaObstacle(
            "its plugin differs", "", f"on {odd[0]}: install the same NCCL plugin as on {others[0]}"
        )
    elif describe_fast_network(seen, odd[0]):
        why = explain_no_rdma(seen, odd[0], reports[odd[0]])
    yield Finding(
        "VC-721",
        "L7",
        f"NCCL uses {least} on {join_names(odd)} ({why.cause}) and {usual} on {join_names(others)}: "
        "nodes of one job need one kind of network",
        node=odd[0],
        peer=join_names(others),
        seen=join_names([one for one in (f"Using network {least}", why.seen) if one]),
        expected=f"Using network {usual}",
        fix=why.fix,
        severity=WARNING if all(one.connected for one in reports.values()) else ERROR,
    )


def explain_no_gpudirect(name: str, took: NcclReport, seen: ClusterObservations) -> RdmaObstacle:
    """Explain why NCCL does not let a NIC access the GPUs' memory."""
    for variable in ("NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ"):
        if variable in took.settings:
            held = took.settings[variable]
            cause = f"{variable}={held['value']} ({held['source']})"
            return RdmaObstacle(cause, cause, suggest_setting_removal(held, variable, name, seen))
    off = [match[1] for line in took.said if (match := DIRECT_OFF.search(line))]
    if off:
        cause = f"NCCL says: GPU Direct RDMA Disabled for {join_names(sorted(set(off)))}"
        fix = f"on {name}: dmesg | grep -i -E 'peermem|dmabuf' (nvidia_peermem fits only the RDMA driver of its build)"
        return RdmaObstacle(cause, cause, fix)
    return RdmaObstacle(
        "NCCL finds the NICs too far from the GPUs (it needs a common PCIe switch)",
        "",
        f"on {name}: nvidia-smi topo -m (PIX or PXB between GPU and NIC). NCCL_NET_GDR_LEVEL=SYS forces it: measure it",
    )


def rule_gpudirect(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that NCCL uses GPUDirect RDMA if the kernel supports it (else VC-143)."""
    for name, took in collect_nccl_reports(seen).items():
        ways = sorted({match[1] for line in took.said if (match := OVER_IB.search(line))})
        if (
            not ways
            or any(DIRECT in way for way in ways)
            or not get_gpu_survey(seen, name).get("direct")
        ):
            continue
        never = any(NEVER_DIRECT in card["name"] for card in list_gpus(seen, name))
        # the finding about the node's slots has it already
        apart = find_numa_faults(name, GpuNodeFacts(get_gpu_survey(seen, name), rdma=True))
        if never or any(apart):
            continue
        why = explain_no_gpudirect(name, took, seen)
        yield Finding(
            "VC-723",
            "L7",
            f"NCCL on {name} sends the GPUs' data through the host's memory, without GPUDirect RDMA: {why.cause}",
            node=name,
            seen=f"via {join_names(ways)}",
            expected=f"via {ways[0]}{DIRECT}",
            fix=why.fix,
            severity=WARNING,
        )


RULES = (rule_tcp_fallback, rule_mixed_networks, rule_gpudirect)
