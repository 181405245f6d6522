"""Evaluate the tries of RDMA between the nodes: which pair of devices fails, at which step, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fullmesh.observed.ladder import (
    RDMA_LARGE_COUNT,
    RDMA_SMALL_COUNT,
    RdmaEnd,
    RdmaResult,
)
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.result.types import Severity
from fullmesh.verify import rdma_pairs
from fullmesh.verify.cards import has_gpus
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.rdma_pairs import (
    ETHERNET,
    choose_gid,
    find_swapped_nodes,
    gid_to_address,
    list_job_ports,
)

# Steps that say nothing about RDMA -> the reason.
UNTRIED = {
    "exchange": "both ends could not agree over TCP",
    "not_tried": "no time was left. diagnose --deadline 180 gives more",
    "busy": "the peer tried too many pairs at the same time",
    "fork": "no process could be started",
}
SWAPPED = "VC-227"
LOSSES = ("VC-224", "VC-225")
# In the name of a NIC's counter of packets that arrived and were discarded: rx_discards_phy, rx_dropped.nic.
DISCARDED = ("discard", "dropped")
FLOW = "flow control (PFC, ECN) on the NIC and the switch, because the NIC's buffers were full"
LOST = ("IBV_WC_RETRY_EXC_ERR", "")  # "" is no completion until the deadline
GONE, NO_PATH = ("gid", "gid_type"), "rtr"
# Steps that fail on one node alone -> the reason.
LOCAL = {
    "library": "libibverbs.so.1 is not installed",
    "device": "libibverbs does not know the device: its provider is not installed",
    "open": "the device cannot be opened",
    "port": "the port cannot be queried",
    "port_down": "the port is down",
    "pd": "the device gives no protection domain",
    "cq": "the device gives no completion queue",
    "mr": "memory cannot be registered",
    "qp": "the device gives no queue pair",
    "init": "the queue pair cannot be initialized",
    "crashed": "the program crashed in the device's library",
    "hung": "a call of the device's library does not return",
}
ADVICE = {
    "library": "install libibverbs (EL) or libibverbs1 and ibverbs-providers (Ubuntu, Debian)",
    "device": "install the provider: rdma-core (EL) or ibverbs-providers (Ubuntu, Debian). Check: ibv_devices",
    "open": "check the device file: ls -l /dev/infiniband. modprobe ib_uverbs, and install rdma-core",
    "port_down": "check cable and switch port: rdma link",
    "pd": "raise the limit of locked memory: ulimit -l unlimited. Check: dmesg",
    "cq": "raise the limit of locked memory: ulimit -l unlimited. Check: dmesg",
    "mr": "raise the limit of locked memory: ulimit -l unlimited. Check: dmesg",
    "qp": "raise the limit of locked memory: ulimit -l unlimited. Check: dmesg",
}


@dataclass(frozen=True)
class RdmaTry:
    """A try from one node to another."""

    source: str
    said: RdmaResult

    @property
    def target(self) -> str:
        """The peer."""
        return self.said["node"]

    @property
    def way(self) -> str:
        """Both ends with their devices."""
        said = self.said
        return f"{self.source} ({said['device']}) -> {self.target} ({said['peer_device']})"

    @property
    def ends(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Both ends: node and device."""
        return (self.source, self.said["device"]), (self.target, self.said["peer_device"])

    @property
    def passed(self) -> bool:
        """Whether all messages came with the right data."""
        return not self.said["own"]["step"] and not self.said["peer"]["step"]

    @property
    def lost(self) -> bool:
        """Whether messages were lost on the way."""
        return any(
            end["step"] == "send" and end["error"] in LOST
            for end in (self.said["own"], self.said["peer"])
        )

    @property
    def untried(self) -> str:
        """Return why the attempt is inconclusive, or an empty string."""
        own, peer = self.said["own"]["step"], self.said["peer"]["step"]
        return UNTRIED.get(own or peer, "")

    def find_step(self, *steps: str) -> tuple[str, str, RdmaEnd] | None:
        """Return node, device and outcome of the end that failed at one of the steps, or None."""
        said = self.said
        for node, device, end in (
            (self.source, said["device"], said["own"]),
            (self.target, said["peer_device"], said["peer"]),
        ):
            if end["step"] in steps:
                return node, device, end
        return None


def list_rdma_tries(seen: ClusterObservations) -> list[RdmaTry]:
    """List the tries of all nodes. Those with texts that are no GIDs are left out."""
    return [
        RdmaTry(name, said)
        for name in seen.plan["nodes"]
        for said in seen.nodes.get(name, {}).get("links", {}).get("rdma", {}).get("pairs", [])
        if said["node"] in seen.plan["nodes"]
        and rdma_pairs.is_gid(said["gid"])
        and rdma_pairs.is_gid(said["peer_gid"])
    ]


def map_rdma_rates(seen: ClusterObservations) -> dict[tuple[str, str, str, str], float]:
    """Map source, target, device and the peer's device to the measured rate in Mbit/s."""
    return {
        (name, one["node"], one["device"], one["peer_device"]): one["mbit_s"]
        for name in seen.plan["nodes"]
        for one in seen.nodes.get(name, {}).get("links", {}).get("rdma", {}).get("rates", [])
    }


def check_rdma(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that RDMA works on every pair of devices, in both directions."""
    tries = list_rdma_tries(seen)
    yield from find_missing_gids(seen)
    swapped = find_swapped_cables(tries)
    if swapped:
        yield make_swap_finding(seen, swapped)
    groups: dict[tuple[str, str, str, str], list[RdmaTry]] = {}
    silent = find_silent_ends(tries)
    for one in tries:
        key = classify_try(one) if find_try_code(one, swapped) not in ("", SWAPPED) else None
        if key and not one.said["spare"]:
            end = next((end for end in one.ends if key[0] in LOSSES and end in silent), None)
            groups.setdefault((key[0], *end, "") if end else key, []).append(one)
    for (code, node, device, error), members in groups.items():
        yield make_try_finding(seen, code, (node, device, error), members)
    yield from find_different_mtus(seen, tries)
    yield from find_grown_counters(seen)


def find_try_code(one: RdmaTry, swapped: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """Return the code of a try that failed, or an empty string."""
    found = classify_try(one)
    if found is None:
        return ""
    first, second = sorted((one.source, one.target))
    return SWAPPED if (first, second) in swapped else found[0]


def name_rail(seen: ClusterObservations, one: RdmaTry) -> str:
    """Return the rail of the plan on which a try ran, or else the network of its address, or its device."""
    address = gid_to_address(one.said["gid"])
    for rail in seen.plan.get("rails", []):
        if rail["members"].get(one.source) == str(address):
            return rail["name"].partition("/")[0] if rail["cable"] else rail["name"]
    networks = rdma_pairs.list_networks(seen.survey(one.source))
    return next((str(one) for one in networks if address in one), one.said["device"])


def classify_try(one: RdmaTry) -> tuple[str, str, str, str] | None:
    """Return code, node, device and error of a failed try. Tries with one cause have the same."""
    if one.passed or one.untried:
        return None
    for code, steps in (
        ("VC-222", tuple(LOCAL)),
        ("VC-221", GONE),
        ("VC-223", (NO_PATH,)),
        ("VC-226", ("data",)),
    ):
        found = one.find_step(*steps)
        if found:
            node, device, end = found
            device = "" if end["step"] == "library" else device  # of all devices of the node
            return code, node, device, f"{end['step']} {end['error']}".strip()
    said = one.said
    count = max(said["own"]["count"], said["peer"]["count"])
    if one.lost:
        rail = sorted(((one.source, said["device"]), (one.target, said["peer_device"])))
        return "VC-225" if count >= RDMA_SMALL_COUNT else "VC-224", *rail[0], str(rail[1])
    failed = one.find_step(said["own"]["step"] or said["peer"]["step"])
    node, device, end = failed or (one.source, said["device"], said["own"])
    return "VC-229", node, device, f"{end['step']} {end['error']}".strip()


def find_silent_ends(tries: Sequence[RdmaTry]) -> set[tuple[str, str]]:
    """Find the ends that lose packets to and from all their peers, while each of these reaches another node.

    With two nodes, the loss can be at either end.
    """
    lost: dict[tuple[str, str], set[tuple[str, str]]] = {}
    good: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for one in tries:
        found = classify_try(one)
        if not one.said["spare"] and (one.passed or (found and found[0] in LOSSES)):
            for end, other in (one.ends, one.ends[::-1]):
                (good if one.passed else lost).setdefault(end, set()).add(other)

    def reaches_any(end: tuple[str, str]) -> bool:
        return bool(good.get(end, set()) - lost.get(end, set()))

    return {
        end
        for end, peers in lost.items()
        if len({node for node, _ in peers}) > 1
        and not reaches_any(end)
        and all(reaches_any(peer) for peer in peers)
    }


def get_severity(seen: ClusterObservations, node: str) -> Severity:
    """Return how grave a failure of RDMA is: without GPUs, no job uses it."""
    return ERROR if has_gpus(seen, node) else WARNING


def describe_mtu(said: RdmaResult) -> int:
    """Return the path MTU of a try, as NCCL chooses it: the smaller one."""
    return min(said["mtu"], said["peer_mtu"]) or max(said["mtu"], said["peer_mtu"])


def get_netdev_hint(said: RdmaResult) -> str:
    """Return the addresses of both ends."""
    return f"{gid_to_address(said['gid'])} -> {gid_to_address(said['peer_gid'])}"


def make_try_finding(
    seen: ClusterObservations, code: str, place: tuple[str, str, str], members: list[RdmaTry]
) -> Finding:
    """Make the finding for tries that failed for one reason."""
    node, device, error = place
    first = members[0]
    said = first.said
    ways = join_names([one.way for one in members][:4]) + (" and more" if len(members) > 4 else "")  # noqa: PLR2004
    step = error.partition(" ")[0]
    addresses = get_netdev_hint(said)
    where = f" on {device} of {node}, and its peers reach each other" if not error else ""
    port = f"the interface of {device} on {node}, its cable and its switch port"
    texts = {
        "VC-221": (
            f"the RDMA device {device} of {node} no longer has the RoCE v2 GID of its address",
            error,
            "a RoCE v2 GID of the address",
            f"on {node}: assign {device}'s network interface its IP address again. Check: rdma link; ip address",
        ),
        "VC-222": (
            f"programs cannot use {f'the RDMA device {device}' if device else 'any RDMA device'} of {node}: "
            f"{LOCAL.get(step, '')}",
            error,
            "a queue pair",
            f"on {node}: {ADVICE.get(step, f'check the device: ibv_devinfo -d {device}; dmesg')}",
        ),
        "VC-223": (
            f"{node} finds no path from its RDMA device {device} to the peer's address: {ways}",
            f"{addresses}, {error}",
            "a path from the device's own network interface",
            f"on {node}: give both ends of the rail addresses in one subnet, or a route. "
            f"Check: ip route get {gid_to_address(said['peer_gid'])} from {gid_to_address(said['gid'])}",
        ),
        "VC-224": (
            f"RDMA packets are lost{where}: {ways}",
            f"{addresses}, {describe_loss(first)}",
            "messages of 64 bytes arrive",
            f"check {port}, and allow UDP port 4791 in both directions there"
            if where
            else "allow UDP port 4791 in both directions on every firewall, switch ACL and VLAN between the two "
            "devices",
        ),
        "VC-225": (
            f"large RDMA messages are lost and small ones arrive{where}: {ways}",
            f"{addresses}, packets of up to {describe_mtu(said)} bytes plus headers, {describe_loss(first)}",
            "messages of 1 MiB arrive",
            f"set one MTU on {port if where else 'both interfaces and on all switch ports between them'}, at least "
            f"{describe_mtu(said) + 100} bytes. Check: ping -M do -s {describe_mtu(said)} "
            f"{gid_to_address(said['peer_gid'])}",
        ),
        "VC-226": (
            f"RDMA delivered wrong data to {node}: {ways}",
            error,
            "the data that was sent",
            f"replace the cable, then the NIC of {device}. Check: rdma statistic; ethtool -S",
        ),
    }
    other = (
        f"RDMA failed: {ways}",
        f"{addresses}, {error}",
        "all messages arrive",
        f"on {node}: check the kernel's messages and the device: dmesg; rdma statistic show link {device}",
    )
    cause, value, expected, fix = texts.get(code, other)
    return Finding(
        code,
        "L2",
        cause,
        node=node,
        peer=join_names(sorted({n for one in members for n in (one.source, one.target)} - {node})),
        seen=value,
        expected=expected,
        fix=fix,
        severity=get_severity(seen, node),
        pairs=tuple(sorted({(one.source, one.target) for one in members})),
    )


def describe_loss(one: RdmaTry) -> str:
    """Describe which messages arrived."""
    back = f"{one.said['own']['count']} messages arrived at {one.source}"
    error = next(
        (end["error"] for end in (one.said["own"], one.said["peer"]) if end["step"] == "send"), ""
    )
    known = one.said["peer"]["step"] not in UNTRIED
    text = (
        f"{one.said['peer']['count']} messages arrived at {one.target} and {back}"
        if known
        else back
    )
    return f"{error}, {text}" if error else text


def find_swapped_cables(tries: list[RdmaTry]) -> dict[tuple[str, str], list[str]]:
    """Map pairs of nodes to the ways that work if each rail's pair does not: their cables are swapped."""
    good = {
        (one.source, one.said["device"], one.target)
        for one in tries
        if one.passed and not one.said["spare"]
    }
    found: dict[tuple[str, str], list[str]] = {}
    for one in tries:
        if (
            one.said["spare"]
            and one.passed
            and (one.source, one.said["device"], one.target) not in good
        ):
            ends = sorted((one.source, one.target))
            found.setdefault((ends[0], ends[1]), []).append(one.way)
    return found


def make_swap_finding(
    seen: ClusterObservations, swapped: Mapping[tuple[str, str], Sequence[str]]
) -> Finding:
    """Make the finding for swapped cables. With three or more nodes, it names the one whose cables are swapped.

    Args:
        seen: the cluster.
        swapped: pairs of nodes, with the ways between them that work.
    """
    names, certain = find_swapped_nodes({frozenset(pair) for pair in swapped})
    first, nodes = names[0], join_names(names)
    place = f"of {nodes}" if certain else f"between {' and '.join(names[:4])}"
    ways = [way for _, held in sorted(swapped.items()) for way in held]
    return Finding(
        SWAPPED,
        "L2",
        f"the cables of the rails {place} are swapped",
        node=first,
        peer=join_names(sorted({name for pair in swapped for name in pair} - {first})),
        seen=f"connected: {join_names(ways[:4])}",
        expected="each rail connects the devices whose addresses are in one subnet",
        fix=f"swap the cables of the two ports at {nodes if certain else first}, or exchange the addresses of its two "
        "interfaces",
        severity=get_severity(seen, first),
    )


def find_missing_gids(seen: ClusterObservations) -> Iterator[Finding]:
    """Find RoCE ports that jobs use and that have no address, if others have one."""
    ports = {name: list_job_ports(seen.survey(name)) for name in seen.plan["nodes"]}
    if not any(choose_gid(port) for held in ports.values() for port in held):
        return
    for name, held in ports.items():
        for port in held:
            if port["layer"] == ETHERNET and not choose_gid(port):
                gids = join_names(
                    sorted(f"{gid['gid']} ({gid['type']})" for gid in port["gids"])[:4]
                )
                yield Finding(
                    "VC-221",
                    "L2",
                    f"the RDMA port {port['device']}:{port['port']} of {name} is active and has no address",
                    node=name,
                    seen=gids or "no GID",
                    expected="a RoCE v2 GID of an IP address",
                    fix=f"on {name}: assign {port['device']}'s network interface an address in a subnet of its own, or "
                    "leave the port out of NCCL_IB_HCA",
                    severity=get_severity(seen, name),
                )


def find_different_mtus(seen: ClusterObservations, tries: list[RdmaTry]) -> Iterator[Finding]:
    """Find devices whose active MTU is below those of peers: they work with the smaller one, at a lower rate."""
    found: dict[tuple[int, str, str], dict[str, int]] = {}
    for one in tries:
        said = one.said
        if said["spare"] or not said["mtu"] or not said["peer_mtu"]:
            continue
        low, high = sorted(
            (mtu, *end) for mtu, end in zip((said["mtu"], said["peer_mtu"]), one.ends, strict=True)
        )
        if low[0] != high[0]:
            found.setdefault(low, {})[f"{high[1]} ({high[2]})"] = high[0]
    for (mtu, node, device), peers in sorted(found.items()):
        ends = join_names(sorted(peers))
        values = join_names([f"{value} on {end}" for end, value in sorted(peers.items())][:4])
        yield Finding(
            "VC-228",
            "L2",
            f"the active RDMA MTU of {node} ({device}) is below that of {ends}",
            node=node,
            peer=join_names(sorted({end.partition(" ")[0] for end in peers})),
            seen=f"{mtu} bytes on {node}, {values}",
            expected="the same",
            fix=f"on {node}: set the MTU of the interface to that of {ends}. Then set it permanently",
            severity=WARNING,
        )


def find_grown_counters(seen: ClusterObservations) -> Iterator[Finding]:
    """Find error counters that grew on a node whose tries all passed."""
    failed = {
        name for one in list_rdma_tries(seen) if not one.passed for name in (one.source, one.target)
    }
    for name in seen.plan["nodes"]:
        grown = seen.nodes.get(name, {}).get("links", {}).get("rdma", {}).get("counters", {})
        if grown and name not in failed:
            shown = join_names([f"{key} +{count}" for key, count in sorted(grown.items())][:6])
            discarded = any(word in key for key in grown for word in DISCARDED)
            yield Finding(
                "VC-230",
                "L2",
                f"RDMA packets of {name} were lost or late, although all messages arrived",
                node=name,
                seen=shown,
                expected=f"no growth during {RDMA_SMALL_COUNT + RDMA_LARGE_COUNT} messages in each direction",
                fix=f"on {name}: check {FLOW if discarded else 'cable, optics and flow control (PFC, ECN)'}. "
                "Check: rdma statistic; ethtool -S",
                severity=WARNING,
            )


def describe_untried_rdma(seen: ClusterObservations) -> list[tuple[str, str]]:
    """List nodes with the pairs that they did not try, and the reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    tried: dict[str, set[str]] = {}
    for one in list_rdma_tries(seen):
        tried.setdefault(one.source, set()).add(one.target)
        if one.untried and not one.said["spare"]:
            groups.setdefault((one.source, one.untried), []).append(one.way)
    found = [
        (node, f"{count_pairs(len(ways))} not tried ({join_names(ways[:3])}): {why}")
        for (node, why), ways in groups.items()
    ]
    for node, peers in tried.items():
        left = [name for name in tried if name != node and name not in peers]
        if left:
            why = f"each node tries {rdma_pairs.MOST} pairs of devices at most"
            found.append((node, f"no pair tried with {join_names(left)}: {why}"))
    return found


def count_pairs(count: int) -> str:
    """Return a number of pairs as words."""
    return "1 pair" if count == 1 else f"{count} pairs"
