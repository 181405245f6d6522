"""Which way NCCL took between the nodes, in its own words, and what keeps it off the better one.

NCCL looks on each node for RDMA by itself and takes TCP where it finds none, without a word at its usual level
(NVIDIA/nccl, src/plugin/net.cc; "NET/IB : No device found" is INFO). It never asks the other nodes what they took: of
one InfiniBand node and one with TCP both wait for ever (NVIDIA/nccl#234, #878).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from fullmesh.contract import steps_of
from fullmesh.ec2 import efa
from fullmesh.observed.survey import RdmaPort, Variable
from fullmesh.verify import card_faults
from fullmesh.verify.cards import OURS, cards_of, gpus_of
from fullmesh.verify.model import ERROR, WARNING, Finding, Seen, in_words
from fullmesh.verify.rank_ends import ranks_of

UP = "ACTIVE"
SOCKET = "Socket"
NETWORK = re.compile(r"Using network ([A-Za-z0-9_-]+(?: [A-Za-z0-9_-]+)*)\s*$")
DEVICES = re.compile(r"NET/(?:IB|Socket) : Using (.*)$")
OFI = re.compile(r"NET/OFI Selected [Pp]rovider is (\S+?),? ")
NO_LIBRARY = re.compile(r"Failed to open (libibverbs\S*)")
NO_DEVICE = "NET/IB : No device found"
# NCCL's own line says by which way a channel sends: NET/IB/0, or NET/IB/0/GDRDMA where the card reaches the GPU itself.
OVER_IB = re.compile(r" via (NET/IB\S*)")
DIRECT = "/GDRDMA"
DIRECT_OFF = re.compile(r"GPU Direct RDMA Disabled for HCA \d+ '([^']+)'")
# NVIDIA's GPUDirect RDMA guide: data centre and workstation cards only.
NEVER_DIRECT = "GeForce"


@dataclass
class Took:
    """What NCCL said on a node.

    Attributes:
        said: its lines, of all ranks there.
        settings: the choices that others made for it, with their files.
        verbs: how many RDMA devices have a file there, None where nobody looked.
        shut: those that only root may open.
        connected: the first collective ended, on every rank.
    """

    said: list[str] = field(default_factory=list)
    settings: dict[str, Variable] = field(default_factory=dict)
    verbs: int | None = None
    shut: Sequence[str] = ()
    connected: bool = True


@dataclass(frozen=True)
class Why:
    """Why NCCL does not use RDMA on a node: the cause, the value seen, what to do."""

    cause: str
    seen: str
    fix: str


def transport_of(said: Sequence[str]) -> dict[str, str]:
    """Which network NCCL took, from its own lines (NCCL_DEBUG=INFO): name and devices."""
    found = {"network": "", "devices": ""}
    for line in said:
        for name, pattern in (("network", NETWORK), ("devices", DEVICES), ("devices", OFI)):
            match = pattern.search(line)
            if match and not found[name]:
                found[name] = match[1].strip()
    return found


def told_by_nccl(seen: Seen) -> dict[str, Took]:
    """Node -> what NCCL said there, for those where it said anything."""
    found: dict[str, Took] = {}
    for name, _, told, _ in ranks_of(seen):
        step = steps_of(told).get("nccl")
        if not step or not step.get("said"):
            continue
        held = found.setdefault(name, Took())
        held.said += [line for line in step["said"] if line not in held.said]
        held.settings |= step.get("settings", {})
        held.verbs = step.get("verbs", held.verbs)
        held.shut = step.get("shut", held.shut)
        held.connected = held.connected and "seconds" in step
    return found


def transports(seen: Seen) -> dict[str, dict[str, str]]:
    """Node -> which network NCCL took there."""
    return {name: transport_of(took.said) for name, took in told_by_nccl(seen).items()}


def networks(seen: Seen) -> dict[str, str]:
    """Node -> the network's name, for those where NCCL named one."""
    return {name: one["network"] for name, one in transports(seen).items() if one["network"]}


def active_ports(seen: Seen, name: str) -> list[RdmaPort]:
    """The RDMA ports of a node that are up."""
    return [port for port in seen.survey(name).get("rdma", []) if port["state"] == UP]


def port_name(port: RdmaPort) -> str:
    """As NCCL_IB_HCA has it: ``mlx5_0:1``."""
    return f"{port['device']}:{port['port']}"


def has_efa(seen: Seen, name: str) -> bool:
    """Whether a node has an EFA, which NCCL reaches by its plugin only."""
    own = seen.survey(name).get("efa")
    return own is not None and efa.has_efa(own)


def fabric(seen: Seen, name: str) -> str:
    """What a node has that is faster than TCP, in words; empty without."""
    if has_efa(seen, name):
        return "EFA"
    ports = [port_name(port) for port in active_ports(seen, name)]
    return f"the RDMA port{'s' * (len(ports) > 1)} {in_words(ports)}" if ports else ""


def taken(hca: str, port: RdmaPort) -> bool:
    """Whether NCCL_IB_HCA lets NCCL take a port: names begin with one of the list, ``=`` exactly, ``^`` all others."""
    but, exact = hca.startswith("^"), hca.removeprefix("^").startswith("=")
    for one in hca.removeprefix("^").removeprefix("=").split(","):
        name, _, number = one.partition(":")
        same = port["device"] == name if exact else port["device"].startswith(name)
        if same and number in ("", str(port["port"])):
            return not but
    return but


def undo(variable: Variable, name: str, node: str, seen: Seen) -> str:
    """How to take a setting out of the place that it comes from."""
    if variable["source"] == OURS:
        return (
            f"{name} out of cluster_env_extra in the inventory; role cluster_env writes what fits the cards: "
            f"{seen.apply('launch')}"
        )
    return f"on {node}: take {name} out of {variable['source']}"


def by_setting(seen: Seen, name: str, took: Took) -> Iterator[Why]:
    """Variables that keep NCCL off RDMA."""

    def why(variable: str, what: str) -> Why:
        held = took.settings[variable]
        text = f"{variable}={held['value']}"
        return Why(f"{text} ({held['source']}) {what}", text, undo(held, variable, name, seen))

    held = {variable: row["value"] for variable, row in took.settings.items()}
    if held.get("NCCL_NET", "").lower() == SOCKET.lower():
        yield why("NCCL_NET", "asks for TCP")
    if held.get("NCCL_IB_DISABLE", "0").strip() not in ("", "0"):
        yield why("NCCL_IB_DISABLE", "switches RDMA off")
    hca, ports = held.get("NCCL_IB_HCA", ""), active_ports(seen, name)
    if hca and not any(taken(hca, port) for port in ports):
        names = in_words([port_name(port) for port in ports])
        yield why("NCCL_IB_HCA", f"fits none of the ports that are up: {names}")


def by_node(name: str, took: Took) -> Iterator[Why]:
    """Files and libraries that NCCL needs for RDMA and has not."""
    library = next((match for line in took.said if (match := NO_LIBRARY.search(line))), None)
    if library:
        yield Why(
            f"NCCL cannot open {library[1]}",
            library[0],
            f"on {name}: install libibverbs (EL) or libibverbs1 and ibverbs-providers (Ubuntu)",
        )
    if took.shut:
        yield Why(
            f"only root may open {in_words(took.shut)}, and neither the check's ranks nor jobs of others are root",
            in_words(took.shut),
            f"on {name}: chmod 0666 {' '.join(took.shut)}; a udev rule of rdma-core's package keeps it so",
        )
    if took.verbs == 0:
        yield Why(
            "there is no /dev/infiniband/uverbs*",
            "no uverbs device",
            f"on {name}: modprobe ib_uverbs (mlx5_ib as well); a container needs --device=/dev/infiniband",
        )


def why_not(seen: Seen, name: str, took: Took) -> Why:
    """The likeliest reason why NCCL does not use the RDMA of a node."""
    own = seen.survey(name).get("efa")
    if own is not None and efa.has_efa(own):
        found = efa.findings({name: own})
        if found:
            return Why(found[0].cause.removeprefix(f"{name}: "), found[0].seen, found[0].fix)
    found_here = next(chain(by_setting(seen, name, took), by_node(name, took)), None)
    if found_here:
        return found_here
    own_words = NO_DEVICE if any(NO_DEVICE in line for line in took.said) else ""
    cause = f"NCCL says: {own_words}" if own_words else "NCCL does not say why"
    fix = f"on {name}: ibv_devinfo -v (its library needs the card's provider: rdma-core, ibverbs-providers); "
    return Why(
        cause, own_words, fix + "run again with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV"
    )


def rule_fallback(seen: Seen) -> Iterator[Finding]:
    """Where every node has RDMA, NCCL uses it; how fast TCP is does not matter here."""
    names = list(seen.plan["nodes"])
    took = networks(seen)
    if len(names) < 2 or set(took.values()) != {SOCKET}:  # noqa: PLR2004 (one node has no network to take)
        return
    if not all(fabric(seen, name) for name in names):
        return
    told = told_by_nccl(seen)
    groups: dict[tuple[str, str], list[str]] = {}
    for name in took:
        why = why_not(seen, name, told[name])
        groups.setdefault((why.cause, why.seen), []).append(name)
    for (cause, value), nodes in groups.items():
        first = nodes[0]
        yield Finding(
            "VC-720",
            "L7",
            f"NCCL on {in_words(nodes)} talks TCP although {fabric(seen, first)} of {first} "
            f"{'are' if ', ' in fabric(seen, first) else 'is'} up: {cause}",
            node=first,
            peer=in_words([name for name in names if name != first]),
            seen=in_words([one for one in (f"Using network {SOCKET}", value) if one]),
            expected="RDMA",
            fix=why_not(seen, first, told[first]).fix,
            severity=WARNING,
        )


def rule_mixed(seen: Seen) -> Iterator[Finding]:
    """All nodes take one network: NCCL speaks one only in a job, and does not ask what the others took."""
    took = networks(seen)
    kinds: dict[str, list[str]] = {}
    for name, network in took.items():
        kinds.setdefault(network, []).append(name)
    if len(kinds) < 2:  # noqa: PLR2004 (two that differ)
        return
    # whoever talks TCP is the one to mend, else the fewest
    least = SOCKET if SOCKET in kinds else min(kinds, key=lambda one: len(kinds[one]))
    odd = kinds[least]
    others = [name for name in took if name not in odd]
    usual = in_words(sorted({took[name] for name in others}))
    told = told_by_nccl(seen)
    why = Why(
        "no RDMA port of it is up", "", f"on {odd[0]}: ibstat; cable, switch port, subnet manager"
    )
    if least != SOCKET:
        why = Why("its plugin differs", "", f"on {odd[0]}: the same NCCL plugin as on {others[0]}")
    elif fabric(seen, odd[0]):
        why = why_not(seen, odd[0], told[odd[0]])
    yield Finding(
        "VC-721",
        "L7",
        f"NCCL takes {least} on {in_words(odd)} ({why.cause}) and {usual} on {in_words(others)}: nodes of one job need "
        "one kind of network",
        node=odd[0],
        peer=in_words(others),
        seen=in_words([one for one in (f"Using network {least}", why.seen) if one]),
        expected=f"Using network {usual}",
        fix=why.fix,
        severity=WARNING if all(one.connected for one in told.values()) else ERROR,
    )


def not_direct(name: str, took: Took, seen: Seen) -> Why:
    """Why NCCL does not let a card reach the GPUs' memory."""
    for variable in ("NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ"):
        if variable in took.settings:
            held = took.settings[variable]
            cause = f"{variable}={held['value']} ({held['source']})"
            return Why(cause, cause, undo(held, variable, name, seen))
    off = [match[1] for line in took.said if (match := DIRECT_OFF.search(line))]
    if off:
        cause = f"NCCL says: GPU Direct RDMA Disabled for {in_words(sorted(set(off)))}"
        fix = f"on {name}: dmesg | grep -i -E 'peermem|dmabuf'; nvidia_peermem is built against one RDMA driver only"
        return Why(cause, cause, fix)
    return Why(
        "NCCL finds the cards too far from the GPUs (it wants a PCIe switch in common)",
        "",
        f"on {name}: nvidia-smi topo -m (PIX or PXB between GPU and card); NCCL_NET_GDR_LEVEL=SYS forces it, measure",
    )


def rule_direct(seen: Seen) -> Iterator[Finding]:
    """Where the kernel lets RDMA cards reach the GPUs' memory (else VC-143), NCCL does so."""
    for name, took in told_by_nccl(seen).items():
        ways = sorted({match[1] for line in took.said if (match := OVER_IB.search(line))})
        if not ways or any(DIRECT in way for way in ways) or not gpus_of(seen, name).get("direct"):
            continue
        never = any(NEVER_DIRECT in card["name"] for card in cards_of(seen, name))
        # said already, of the node's slots
        apart = card_faults.apart(name, card_faults.Box(gpus_of(seen, name), rdma=True))
        if never or any(apart):
            continue
        why = not_direct(name, took, seen)
        yield Finding(
            "VC-723",
            "L7",
            f"NCCL on {name} sends the GPUs' data through the host's memory, without GPUDirect RDMA: {why.cause}",
            node=name,
            seen=f"via {in_words(ways)}",
            expected=f"via {ways[0]}{DIRECT}",
            fix=why.fix,
            severity=WARNING,
        )


RULES = (rule_fallback, rule_mixed, rule_direct)
