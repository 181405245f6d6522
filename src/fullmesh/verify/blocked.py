"""Explain blocked links: the cause, the place of the drop, and the fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fullmesh.model.services import find_port_service
from fullmesh.observed.ladder import BY_CHANCE, LinkResult, Verdict
from fullmesh.verify.model import ClusterObservations

OPEN: Verdict = "open"
# Worst first: the state of a pair is the worst of its ports.
VERDICTS: tuple[Verdict, ...] = (
    "someone_else",
    "wrong_source",
    "no_route",
    "dropped",
    "rejected",
    "refused",
    "reset",
    "mtu_black_hole",
    OPEN,
)
CODES_OF: dict[Verdict, str] = {
    "dropped": "VC-201",
    "rejected": "VC-202",
    "refused": "VC-203",
    "no_route": "VC-204",
    "reset": "VC-205",
    "wrong_source": "VC-206",
    "someone_else": "VC-207",
    "mtu_black_hole": "VC-208",
}
SAID: dict[Verdict, str] = {
    "dropped": "gets no answer (packets are dropped)",
    "rejected": "is rejected (ICMP prohibited)",
    "refused": "is refused (a reset comes back although the peer listens)",
    "no_route": "has no route to it, or gets no reply to ARP",
    "reset": "is cut off after it was connected",
    "wrong_source": "comes from a different address than the cluster's",
    "someone_else": "reaches something that is not this verification's listener",
    "mtu_black_hole": "gets small packets through and loses large ones (MTU)",
}
SHOWN_PORTS = 6
NO_WAY_OUT = (
    "ENETUNREACH",
    "EADDRNOTAVAIL",
    "ENETDOWN",
    "EINVAL",
    "EACCES",
)  # errors of the node's own kernel, not of a router
DATA_KINDS = ("sample", "range")  # assigned by the kernel, and chosen over the whole range
FIREWALLED: tuple[Verdict, ...] = ("dropped", "rejected", "refused")
# The place where packets of source -> target are lost, from packet captures at both ends.
STOPPED = {
    "leaving": "the packets never leave {source}, so {source} itself blocks them",
    "on_the_way": "the packets leave {source} and never arrive at {target}, so something in between blocks them",
    "target": "the packets arrive at {target}, so {target} itself blocks them",
    "on_the_way_back": "the answers of {target} never arrive at {source}, so something in between blocks them",
    "no_way_back": "the packets arrive at {target}, which has no way to answer (see {target} -> {source})",
    "no_carrier": "the cluster interface of {target} has no carrier",
    "no_way_out": "the kernel of {source} has no route to it",
    "by_chance": "some packets pass and others are lost",
    "source": "the answers of {target} arrive at {source}, so {source} itself blocks them",
}
UNTAPPED = " (how far the packets came could not be watched on {target})"


@dataclass(frozen=True)
class BlockedLink:
    """A problem between two nodes in one direction."""

    source: str
    target: str
    verdict: Verdict
    ports: str
    remark: str
    place: str  # a key of STOPPED, or "" if unknown
    shown: str
    kinds: tuple[str, ...] = ()

    @property
    def culprit(self) -> str:
        """Return the node to act on."""
        at_home = (
            self.place in ("leaving", "source", "no_way_out") or self.verdict == "wrong_source"
        )
        return self.source if at_home else self.target


def get_link_records(seen: ClusterObservations, source: str) -> list[LinkResult]:
    """Return a node's records of its connections to peers."""
    return seen.nodes.get(source, {}).get("links", {}).get("links", [])


def pick_worst_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the state of a pair."""
    return min(verdicts, key=VERDICTS.index)


def is_seen_on_wire(
    seen: ClusterObservations,
    watcher: str,
    what: Literal["asked", "answered"],
    pair: str,
    ports: Sequence[int],
) -> bool | None:
    """Return whether a node's capture has one of the handshakes. None: it did not capture."""
    if not seen.nodes.get(watcher, {}).get("node", {}).get("tapped"):
        return None
    report = seen.nodes.get(watcher, {}).get("started", {}).get("listeners")
    if not report:
        return None
    return any(port in report[what].get(pair, []) for port in ports)


def trace_packets(seen: ClusterObservations, source: str, target: str, ports: Sequence[int]) -> str:
    """Follow the packets from capture to capture until they are lost."""
    pair = f"{seen.address(source)}>{seen.address(target)}"
    came = is_seen_on_wire(seen, target, "asked", pair, ports)
    if came is None:
        return ""
    if seen.facts(target).get("interface", {}).get("up") is False:
        return "no_carrier"
    if not came:
        left = is_seen_on_wire(seen, source, "asked", pair, ports)
        return "leaving" if left is False else "on_the_way"
    if not is_seen_on_wire(seen, target, "answered", pair, ports):
        reverse = {r["verdict"] for r in get_link_records(seen, target) if r["node"] == source}
        return "no_way_back" if "no_route" in reverse else "target"
    return trace_answers(seen, source, target, ports)


def trace_answers(seen: ClusterObservations, source: str, target: str, ports: Sequence[int]) -> str:
    """Follow replies that left the target."""
    pair = f"{seen.address(source)}>{seen.address(target)}"
    back = is_seen_on_wire(seen, source, "answered", pair, ports)
    if back is None:
        return ""
    if not back:
        return "on_the_way_back"
    # A firewall in between blocks all replies. If a few came back, the target passed some packets of these ports: a
    # rule with a rate limit or a probability.
    asked = [port for port in ports if is_seen_on_wire(seen, target, "asked", pair, [port])]
    heard = [port for port in asked if is_seen_on_wire(seen, source, "answered", pair, [port])]
    return "source" if 2 * len(heard) >= len(asked) else "target"


def locate_drop(
    seen: ClusterObservations, source: str, target: str, verdict: str, found: Sequence[LinkResult]
) -> str:
    """Return the place where the packets of a link are lost, a key of STOPPED."""
    if verdict in FIREWALLED:
        place = trace_packets(seen, source, target, [r["port"] for r in found])
        # A late reply may belong to an earlier attempt, as seen when 6 of 10 SYNs were dropped.
        chance = any(r["remark"].startswith(BY_CHANCE) for r in found)
        return "by_chance" if place == "source" and chance else place
    local = all(r["errno"] in NO_WAY_OUT or not r.get("device") for r in found)
    return "no_way_out" if verdict == "no_route" and local else ""


def describe_blocked_ports(
    seen: ClusterObservations, found: Sequence[LinkResult], tried: int
) -> str:
    """Describe which ports are blocked."""
    words = []
    samples = [str(r["port"]) for r in found if r["kind"] in DATA_KINDS]
    if samples:
        of = "" if len(samples) == tried else f" ({len(samples)} of {tried} tried)"
        words.append(f"{seen.plan['data_ports']['firewalld']}/tcp{of}")
    for record in found:
        if record["kind"] not in DATA_KINDS:
            name = find_port_service(seen.plan, record["node"], record["port"]) or record["kind"]
            words.append(f"{record['port']}/tcp ({name})")
    return ", ".join(words)


def describe_port_errors(found: Sequence[LinkResult]) -> str:
    """Describe the kernel's errors for the first ports, and how far their packets came."""
    words = []
    for record in found[:SHOWN_PORTS]:
        reached = record.get("reached", "")
        far = f" ({reached})" if reached and reached != "asked" else ""
        words.append(f"{record['port']}: {record['errno'] or record['verdict']}{far}")
    rest = len(found) - SHOWN_PORTS
    return ", ".join([*words, *([f"and {rest} more"] if rest > 0 else [])])


def merge_limited_rejects(
    groups: Mapping[tuple[str, Verdict], list[LinkResult]],
) -> dict[tuple[str, Verdict], list[LinkResult]]:
    """Count silence as a rejection if the same peer also rejects.

    Linux sends only a few ICMP replies per second to one address (icmp_ratelimit, icmp(7)), so of many rejected
    connections only the first ones get a reply.
    """
    found = {key: list(records) for key, records in groups.items()}
    for target, verdict in list(found):
        if verdict == "dropped" and (target, "rejected") in found:
            found[(target, "rejected")] += found.pop((target, verdict))
    return found


def list_blocked_links(seen: ClusterObservations) -> list[BlockedLink]:
    """List everything that is not open, one entry per pair and state."""
    result = []
    for source in seen.plan["nodes"]:
        groups: dict[tuple[str, Verdict], list[LinkResult]] = {}
        tried: dict[str, int] = {}
        for record in get_link_records(seen, source):
            if record["kind"] == "outside":
                continue
            tried[record["node"]] = tried.get(record["node"], 0) + (record["kind"] in DATA_KINDS)
            if record["verdict"] != OPEN:
                groups.setdefault((record["node"], record["verdict"]), []).append(record)
        for (target, verdict), found in merge_limited_rejects(groups).items():
            shown = describe_port_errors(found)
            result.append(
                BlockedLink(
                    source,
                    target,
                    verdict,
                    describe_blocked_ports(seen, found, tried[target]),
                    found[0]["remark"],
                    locate_drop(seen, source, target, verdict, found),
                    shown,
                    tuple(sorted({str(r["kind"]) for r in found})),
                )
            )
    return result


def describe_drop_place(block: BlockedLink) -> str:
    """Describe where the packets are dropped, if known."""
    if not block.place:
        return UNTAPPED.format(target=block.target) if block.verdict in FIREWALLED else ""
    place = STOPPED[block.place]
    return f". {place[0].upper()}{place[1:].format(source=block.source, target=block.target)}"


def suggest_link_steps(seen: ClusterObservations, block: BlockedLink) -> tuple[str, str]:
    """Return a command that shows more about a blocked link, and the command or change that fixes it."""
    data = seen.plan["data_ports"]["firewalld"]
    here, peer = seen.address(block.source), seen.address(block.target)
    if block.verdict in FIREWALLED and block.place.startswith("on_the_way"):
        return (
            f"on {block.source}: ip route get {peer}",
            f"allow tcp {data} and the named ports between {here} and {peer} in the network "
            "(switch ACL, security group), in both directions",
        )
    if block.place in ("no_way_back", "no_carrier"):
        return f"on {block.target}: ip route get {here} && ip link show", seen.apply("network")
    if block.verdict in FIREWALLED:
        check = f"on {block.culprit}: firewall-cmd --get-active-zones; nft list ruleset"
        return check, seen.apply("firewall")
    if block.verdict == "mtu_black_hole":
        return (
            f"on {block.source}: ping -M do -s 1472 {peer}",
            "set the same MTU on both ends and the switches",
        )
    if block.verdict == "someone_else":
        return (
            f"on {block.source}: ip neigh show {peer}",
            f"give the other host with {peer} another address",
        )
    return f"on {block.source}: ip route get {peer}", seen.apply("network")


def group_blocked_links(blocks: Sequence[BlockedLink]) -> Iterator[list[BlockedLink]]:
    """Group links with one cause: many sources and one target, or one source and many targets."""
    by_target: dict[tuple[Any, ...], list[BlockedLink]] = {}
    for block in blocks:
        key = (block.target, block.verdict, block.ports, block.place)
        by_target.setdefault(key, []).append(block)
    single: dict[tuple[Any, ...], list[BlockedLink]] = {}
    for group in by_target.values():
        if len(group) > 1:
            yield group
        else:
            block = group[0]
            key = (block.source, block.verdict, block.ports, block.place)
            single.setdefault(key, []).append(block)
    yield from single.values()
