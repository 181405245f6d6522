"""Rung L2: every ordered pair of nodes, judged from what the kernels said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, cast

from fullmesh.model.types import Plan
from fullmesh.observed.ladder import Pair, PeerKind, Port, Verdict
from fullmesh.result.types import LinkRow, PortRow
from fullmesh.verify.model import WARNING, Finding, Seen, in_words

OPEN: Verdict = "open"
ONLY_MODE = "peers_only"  # the one mode that promises what peers do not reach
# Worst first: the word of a pair is the worst of its ports.
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
    "rejected": "is rejected (an ICMP answer says: prohibited)",
    "refused": "is refused (a reset comes back although a listener is there)",
    "no_route": "finds no way there (no route, or nobody answers ARP)",
    "reset": "is cut off after it was connected",
    "wrong_source": "comes from another address than the cluster's",
    "someone_else": "reaches something that is not this verification's listener",
    "mtu_black_hole": "gets small packets through and loses large ones (MTU)",
}
SHOWN_PORTS = 6
NO_WAY_OUT = ("ENETUNREACH", "EADDRNOTAVAIL", "ENETDOWN")  # said by our own kernel, not by a router
DATA_KINDS = ("sample", "range")  # given out by the kernel, and chosen by us over the whole range
FIREWALLED: tuple[Verdict, ...] = ("dropped", "rejected", "refused")
# Who stops the packets of source -> target, by what the taps of both ends saw on the wire.
STOPPED = {
    "leaving": "the packets never leave {source}, so its own firewall stops them on the way out",
    "on_the_way": "the packets leave {source} and never arrive at {target}, so something in between stops them",
    "target": "the packets arrive at {target}, so its own firewall stops them",
    "on_the_way_back": "{target} answers and the answers never arrive at {source}, so something in between stops them",
    "no_way_back": "the packets arrive at {target}, which has no way to answer (see {target} -> {source})",
    "no_carrier": "the cluster interface of {target} has no carrier",
    "no_way_out": "the kernel of {source} knows no way there",
    "source": "{target} answers, and {source}'s own firewall stops the answers",
}


UNTAPPED = " (how far the packets came could not be watched on {target})"


@dataclass(frozen=True)
class Blocked:
    """What is wrong between two nodes in one direction."""

    source: str
    target: str
    verdict: Verdict
    ports: str
    remark: str
    place: str  # a key of STOPPED, "" when it is not known
    shown: str
    kinds: tuple[str, ...] = ()

    @property
    def culprit(self) -> str:
        """The node to act on."""
        at_home = (
            self.place in ("leaving", "source", "no_way_out") or self.verdict == "wrong_source"
        )
        return self.source if at_home else self.target


def records(seen: Seen, source: str) -> list[Pair]:
    """What a node saw when it connected to its peers."""
    return seen.nodes.get(source, {}).get("links", {}).get("links", [])


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The word for a pair."""
    return min(verdicts, key=VERDICTS.index)


def matrix(seen: Seen) -> list[LinkRow]:
    """One row for each ordered pair that was tried."""
    rows = []
    for source in seen.plan["nodes"]:
        by_peer: dict[str, list[Pair]] = {}
        for record in records(seen, source):
            if record["kind"] != "outside":
                by_peer.setdefault(record["node"], []).append(record)
        for target, found in by_peer.items():
            verdict = worst([record["verdict"] for record in found])
            good = [record for record in found if record["verdict"] == OPEN]
            row: LinkRow = {
                "from": source,
                "to": target,
                "verdict": verdict,
                "ms": round(median(r["ms"] for r in good), 3) if good else None,
                "rtt_ms": round(min(r["rtt_ms"] for r in good), 3) if good else None,
                "ports": [port_row(r) for r in found if r["verdict"] != OPEN],
            }
            add_rates(row, seen, found)
            rows.append(row)
    return rows


def port_row(record: Pair) -> PortRow:
    """A port of the plan that is not open."""
    kind = cast("PeerKind", record["kind"])
    row: PortRow = {"port": record["port"], "kind": kind, "verdict": record["verdict"]}
    if errno := record.get("errno"):
        row["errno"] = errno
    if reached := record.get("reached"):
        row["reached"] = reached
    return row


def add_rates(row: LinkRow, seen: Seen, found: Sequence[Pair]) -> None:
    """Add the share of segments that were lost on the way there, and the rate, where they were measured."""
    sent = sum(record.get("segments", 0) for record in found)
    if sent:
        row["loss"] = round(sum(record.get("lost", 0) for record in found) / sent, 5)
    for rate in seen.nodes.get(row["from"], {}).get("links", {}).get("bandwidth", []):
        if rate["node"] == row["to"]:
            row["mbit_s"] = rate["mbit_s"]


def on_wire(
    seen: Seen, watcher: str, what: Literal["asked", "answered"], pair: str, ports: Sequence[int]
) -> bool | None:
    """Whether a node's tap saw one of the handshakes; None when it was not watching."""
    if not seen.nodes.get(watcher, {}).get("node", {}).get("tapped"):
        return None
    report = seen.nodes.get(watcher, {}).get("started", {}).get("listeners")
    if not report:
        return None
    return any(port in report[what].get(pair, []) for port in ports)


def where_stopped(seen: Seen, source: str, target: str, ports: Sequence[int]) -> str:
    """Follow the packets from tap to tap until they are gone."""
    pair = f"{seen.address(source)}>{seen.address(target)}"
    came = on_wire(seen, target, "asked", pair, ports)
    if came is None:
        return ""
    if seen.facts(target).get("interface", {}).get("up") is False:
        return "no_carrier"
    if not came:
        left = on_wire(seen, source, "asked", pair, ports)
        return "leaving" if left is False else "on_the_way"
    if not on_wire(seen, target, "answered", pair, ports):
        reverse = {r["verdict"] for r in records(seen, target) if r["node"] == source}
        return "no_way_back" if "no_route" in reverse else "target"
    back = on_wire(seen, source, "answered", pair, ports)
    if back is None:
        return ""
    return "source" if back else "on_the_way_back"


def place_of(seen: Seen, source: str, target: str, verdict: str, found: Sequence[Pair]) -> str:
    """Where the packets of a link end, a key of STOPPED."""
    if verdict in FIREWALLED:
        return where_stopped(seen, source, target, [r["port"] for r in found])
    local = all(r["errno"] in NO_WAY_OUT or not r.get("device") for r in found)
    return "no_way_out" if verdict == "no_route" and local else ""


def ports_in_words(seen: Seen, found: Sequence[Pair], tried: int) -> str:
    """Say which ports are shut."""
    words = []
    samples = [str(r["port"]) for r in found if r["kind"] in DATA_KINDS]
    if samples:
        of = "" if len(samples) == tried else f" ({len(samples)} of {tried} tried)"
        words.append(f"{seen.plan['data_ports']['firewalld']}/tcp{of}")
    words += [f"{r['port']}/tcp ({r['kind']})" for r in found if r["kind"] not in DATA_KINDS]
    return ", ".join(words)


def shown_ports(found: Sequence[Pair]) -> str:
    """What the kernel said for the first ports, and how far this end came on them."""
    words = []
    for record in found[:SHOWN_PORTS]:
        reached = record.get("reached", "")
        far = f" ({reached})" if reached and reached != "asked" else ""
        words.append(f"{record['port']}: {record['errno'] or record['verdict']}{far}")
    rest = len(found) - SHOWN_PORTS
    return ", ".join([*words, *([f"and {rest} more"] if rest > 0 else [])])


def limited(
    groups: Mapping[tuple[str, Verdict], list[Pair]],
) -> dict[tuple[str, Verdict], list[Pair]]:
    """Count silence as a rejection where the same peer rejects as well.

    Linux sends no more than a few ICMP answers a second to one address (icmp_ratelimit, icmp(7)): of many
    rejected connections only the first ones are told so.
    """
    found = {key: list(records) for key, records in groups.items()}
    for target, verdict in list(found):
        if verdict == "dropped" and (target, "rejected") in found:
            found[(target, "rejected")] += found.pop((target, verdict))
    return found


def blocked_pairs(seen: Seen) -> list[Blocked]:
    """Everything that is not open, one entry per pair and verdict."""
    result = []
    for source in seen.plan["nodes"]:
        groups: dict[tuple[str, Verdict], list[Pair]] = {}
        tried: dict[str, int] = {}
        for record in records(seen, source):
            if record["kind"] == "outside":
                continue
            tried[record["node"]] = tried.get(record["node"], 0) + (record["kind"] in DATA_KINDS)
            if record["verdict"] != OPEN:
                groups.setdefault((record["node"], record["verdict"]), []).append(record)
        for (target, verdict), found in limited(groups).items():
            shown = shown_ports(found)
            result.append(
                Blocked(
                    source,
                    target,
                    verdict,
                    ports_in_words(seen, found, tried[target]),
                    found[0]["remark"],
                    place_of(seen, source, target, verdict, found),
                    shown,
                    tuple(sorted({str(r["kind"]) for r in found})),
                )
            )
    return result


def where(block: Blocked) -> str:
    """Say who stops the packets, as far as it is known."""
    if not block.place:
        return UNTAPPED.format(target=block.target) if block.verdict in FIREWALLED else ""
    return "; " + STOPPED[block.place].format(source=block.source, target=block.target)


def mend(seen: Seen, block: Blocked) -> str:
    """The command that mends a blocked link."""
    data = seen.plan["data_ports"]["firewalld"]
    here, peer = seen.address(block.source), seen.address(block.target)
    if block.verdict in FIREWALLED and block.place.startswith("on_the_way"):
        return (
            f"allow tcp {data} and the named ports between {here} and {peer} in the network "
            f"(switch ACL, security group), both ways; on {block.source}: ip route get {peer}"
        )
    if block.place in ("no_way_back", "no_carrier"):
        return f"on {block.target}: ip route get {here}; ip link show; {seen.apply('network')}"
    if block.verdict in FIREWALLED:
        look = "firewall-cmd --get-active-zones; nft list ruleset"
        return f"{seen.apply('firewall')}; look on {block.culprit}: {look}"
    if block.verdict == "mtu_black_hole":
        return (
            f"on {block.source}: ping -M do -s 1472 {peer}; give both ends and the switches one MTU"
        )
    if block.verdict == "someone_else":
        return f"on {block.source}: ip neigh show {peer}; look for a second host with {peer}"
    return f"on {block.source}: ip route get {peer}; {seen.apply('network')}"


def merged(blocks: Sequence[Blocked]) -> Iterator[list[Blocked]]:
    """Put together what has one cause: many sources and one target, or one source and many targets."""
    by_target: dict[tuple[Any, ...], list[Blocked]] = {}
    for block in blocks:
        key = (block.target, block.verdict, block.ports, block.place)
        by_target.setdefault(key, []).append(block)
    single: dict[tuple[Any, ...], list[Blocked]] = {}
    for group in by_target.values():
        if len(group) > 1:
            yield group
        else:
            block = group[0]
            key = (block.source, block.verdict, block.ports, block.place)
            single.setdefault(key, []).append(block)
    yield from single.values()


def rule_links(seen: Seen) -> Iterator[Finding]:
    """Every peer reaches every peer, on the named ports and on ports that the kernel chose."""
    for group in merged(blocked_pairs(seen)):
        block = group[0]
        sources = sorted({b.source for b in group})
        targets = sorted({b.target for b in group})
        direction = f"{in_words(sources)} -> {in_words(targets)}"
        remark = f" [{block.remark}]" if block.remark else ""
        act = block.culprit
        others = sorted({*sources, *targets} - {act})
        yield Finding(
            CODES_OF[block.verdict],
            "L2",
            f"{direction} {SAID[block.verdict]}{where(block)}{remark}",
            node=act,
            peer=in_words(others),
            port=block.ports,
            direction=direction,
            seen=block.shown,
            expected=OPEN,
            fix=mend(seen, block),
            pairs=tuple((b.source, b.target) for b in group),
            kinds=tuple(sorted({kind for b in group for kind in b.kinds})),
        )


def rule_late(seen: Seen) -> Iterator[Finding]:
    """A link that is open and whose listener answered too late: a busy machine, no fault of the link."""
    for source in seen.plan["nodes"]:
        slow = sorted(
            {r["node"] for r in records(seen, source) if r["verdict"] == OPEN and r["remark"]}
        )
        if slow:
            yield Finding(
                "VC-209",
                "L2",
                f"{in_words(slow)} accepted the connections of {source} and answered late; the links are open",
                node=slow[0],
                peer=source,
                direction=f"{source} -> {in_words(slow)}",
                seen="no complete answer in time",
                expected="an answer",
                fix=f"on {slow[0]}: uptime; run the verification again when the node is less busy",
                severity=WARNING,
                pairs=tuple((source, peer) for peer in slow),
            )


def rule_sample_ports(seen: Seen) -> Iterator[Finding]:
    """What the kernel gave to a listener that did not ask for a port lies in the range: the pin works."""
    data = seen.plan["data_ports"]
    for name in seen.plan["nodes"]:
        ports = seen.nodes.get(name, {}).get("node", {}).get("ports", [])
        given = [p["port"] for p in ports if p["kind"] == "sample" and not p["error"]]
        out = [port for port in given if not data["first"] <= port <= data["last"]]
        if out:
            yield Finding(
                "VC-212",
                "L2",
                f"a listener on {name} got a port outside the data range",
                node=name,
                port=", ".join(map(str, out)),
                seen=", ".join(map(str, out)),
                expected=str(data["firewalld"]),
                fix=seen.apply("tuning"),
            )


def rule_outside_port(seen: Seen) -> Iterator[Finding]:
    """Peers reach nothing but what the plan opens."""
    if seen.mode != ONLY_MODE:
        return
    for source in seen.plan["nodes"]:
        for record in records(seen, source):
            if record["kind"] == "outside" and record["verdict"] == OPEN:
                yield Finding(
                    "VC-210",
                    "L2",
                    f"{source} reaches {record['node']} on a port that the plan does not open",
                    node=record["node"],
                    peer=source,
                    port=f"{record['port']}/tcp",
                    direction=f"{source} -> {record['node']}",
                    seen=OPEN,
                    expected="shut",
                    fix=f"{seen.apply('firewall')}; look on {record['node']}: firewall-cmd --list-all-zones",
                )


def reached_from_outside(record: Mapping[str, Any]) -> bool:
    """Whether the node itself answered: its listener's greeting, which brings the clock offset, was read.

    A connection alone proves nothing. The controller may have no way into the cluster's network, and a transparent
    proxy behind its default route accepts connections to any address (seen).
    """
    return record["verdict"] == OPEN and record["offset"] is not None


def rule_outsider(seen: Seen) -> Iterator[Finding]:
    """Who is not a peer does not reach the named ports."""
    if seen.mode == "off":
        return
    reached: dict[str, list[Mapping[str, Any]]] = {}
    for record in seen.outside.get("links", []):
        if reached_from_outside(record):
            reached.setdefault(record["node"], []).append(record)
    for name, found in reached.items():
        ports = ", ".join(f"{port}/tcp" for port in sorted({r["port"] for r in found}))
        yield Finding(
            "VC-211",
            "L2",
            f"the controller, which is no peer, reaches {ports} on {name}",
            node=name,
            peer="controller",
            port=ports,
            direction=f"controller -> {name}",
            seen=", ".join(f"{r['address']}:{r['port']} open" for r in found),
            expected="shut to everybody but the peers",
            fix=f"{seen.apply('firewall')}; look on {name}: firewall-cmd --get-active-zones",
        )


def guard_notes(seen: Seen, why_not_outside: str) -> list[str]:
    """What about the firewall was not tested, and why."""
    notes = []
    if seen.mode != ONLY_MODE:
        notes.append(
            f"not tested that other ports are shut to peers: the firewall mode is {seen.mode}"
        )
    if seen.mode == "off":
        notes.append("not tested that outsiders are kept out: the firewall mode is off")
    elif why_not_outside:
        notes.append(f"not tested that outsiders are kept out: {why_not_outside}")
    for record in seen.outside.get("links", []):
        if record["verdict"] in (OPEN, "someone_else") and not reached_from_outside(record):
            notes.append(
                f"something else answered the controller at {record['address']}:{record['port']}"
                " (a proxy on the way?), so this says nothing about the node"
            )
    return notes


RULES = (rule_links, rule_late, rule_sample_ports, rule_outside_port, rule_outsider)


def findings(seen: Seen) -> list[Finding]:
    """All findings of this rung."""
    return [finding for rule in RULES for finding in rule(seen)]


def wants(plan: Plan, name: str, mode: str) -> dict[str, Any]:
    """Which listeners a node opens."""
    named = []
    if name == plan["master"]["node"]:
        named = [
            {"kind": "master", "port": plan["master"]["port"]},
            {"kind": "rendezvous", "port": plan["rendezvous"]["port"]},
        ]
    data = plan["data_ports"]
    allowed = [[data["first"], data["last"]], *([p, p] for p in plan["reserved_ports"])]
    return {"named": named, "outside": mode == ONLY_MODE, "allowed": allowed}


def targets(plan: Plan, opened: Mapping[str, Sequence[Port]], name: str) -> list[dict[str, Any]]:
    """Every listener of every other node."""
    return [
        {
            "node": peer,
            "address": plan["nodes"][peer]["address"],
            "port": port["port"],
            "kind": port["kind"],
        }
        for peer, ports in opened.items()
        if peer != name
        for port in ports
        if not port["error"]
    ]


def outsider_targets(
    plan: Plan,
    opened: Mapping[str, Sequence[Port]],
    reachable: Mapping[str, str],
) -> list[dict[str, Any]]:
    """The named ports, by the address that the controller uses and by the cluster's."""
    found = []
    for name, ports in opened.items():
        for address in dict.fromkeys((reachable[name], plan["nodes"][name]["address"])):
            found += [
                {"node": name, "address": address, "port": port["port"], "kind": "outside"}
                for port in ports
                if port["kind"] in ("master", "rendezvous") and not port["error"]
            ]
    return found
