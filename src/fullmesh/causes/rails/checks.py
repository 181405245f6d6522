"""Evaluate the tests of the plan's rails: which rail of which node is wrong, and why.

The tests show a fault in several places: a missing address, a route over another rail, a failed connection. For each
rail, the deepest of them is a finding, and the failed connections that it explains are none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.packet_filter import (
    ACCEPT,
    VERBS,
    PacketVerdict,
    evaluate_packet,
    make_reply_packet,
)
from fullmesh.causes.rails.ends import (
    NO_PROBE,
    RailEnd,
    describe_detour,
    describe_failure,
    describe_queue,
    is_slow_queue,
    is_up,
    list_global_addresses,
    list_rail_ends,
    map_rail_macs,
)
from fullmesh.causes.rails.vc242_swapped import WrongCable, fold_wrong_cables
from fullmesh.model.types import PlanRail
from fullmesh.netfilter.evaluator import Packet
from fullmesh.observed.ladder import RailLink, RailProbe
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.blocked import OPEN
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.rdma_pairs import gid_to_address
from fullmesh.verify.rdma_tries import list_rdma_tries

HOLE, BLOCKED = "mtu_black_hole", ("dropped", "rejected", "refused", "reset")
PAIR = 2
SHOWN = 4
Way = tuple[str, str]


class RailFault(NamedTuple):
    """The texts of a finding about a rail, whose name is put in front of the cause."""

    code: str
    cause: str
    seen: str
    expected: str
    fix: str


@dataclass
class RailCheck:
    """The evaluation of one network of a rail. *explained*: the pairs of nodes whose failures have a cause."""

    seen: ClusterObservations
    rail: PlanRail
    ends: Mapping[str, RailEnd]
    probes: Mapping[str, RailProbe]
    explained: set[frozenset[str]] = field(default_factory=set)

    @property
    def failed(self) -> list[tuple[str, RailLink]]:
        """The failed connections without a cause so far."""
        return [(source, one) for source, one in self.links if not self.is_open(source, one)]

    @cached_property
    def links(self) -> list[tuple[str, RailLink]]:
        """The tested connections between these ends."""
        return [
            (name, one)
            for name, probe in self.probes.items()
            for one in probe["links"]
            if one["rail"] == self.rail["name"] and one["node"] in self.ends and name in self.ends
        ]

    def is_open(self, source: str, link: RailLink) -> bool:
        """Return whether a connection needs no further explanation."""
        return link["verdict"] == OPEN or frozenset((source, link["node"])) in self.explained

    def explain_node(self, node: str) -> None:
        """Note that all failures with a node have a cause."""
        self.explained |= {frozenset((node, other)) for other in self.ends}

    def make_finding(self, node: str, fault: RailFault, peers: Sequence[str] = ()) -> Finding:
        """Make a finding about a node's end. It affects all pairs with the node, or those with the *peers*."""
        others = [name for name in peers or self.ends if name != node]
        return Finding(
            fault.code,
            "L2",
            f"{self.rail['name']}: {fault.cause}",
            node=node,
            peer=join_names(others),
            seen=fault.seen,
            expected=fault.expected,
            fix=fault.fix,
            pairs=tuple(pair for other in others for pair in ((node, other), (other, node))),
        )

    # --- each end by itself

    def check_addresses(self) -> Iterator[Finding]:
        """Check that each node has its address, on the planned interface and with the planned prefix.

        systemd-networkd removes the address while there is no carrier.
        """
        for name, end in self.ends.items():
            if end.holder is None and not is_up(end.nic):
                continue
            if end.holder is not None and end.address in end.holder["addresses"]:
                if end.link is None or end.planned is end.holder:
                    continue
                shown = f"{end.address} on {end.holder['name']}"
            elif end.holder is not None:
                same = [one for one in end.holder["addresses"] if one.startswith(f"{end.ip}/")]
                shown = f"{same[0]} on {end.holder['name']}"
            elif end.planned is not None:
                others = join_names(list_global_addresses(end.planned)) or "no address"
                shown = f"{others} on {end.planned['name']}"
            else:
                names = [nic["name"] for nic in self.seen.survey(name).get("interfaces", [])]
                shown = f"no interface {end.wanted}. There are {join_names(names[:8])}"
            self.explain_node(name)
            place = f"{end.address} on {end.wanted}"
            fix = f"{self.seen.apply('network')}. If the interface has another name now, correct fullmesh_rails"
            cause = f"{name} does not have its address {place}"
            yield self.make_finding(name, RailFault("VC-231", cause, shown, place, fix))

    def check_carriers(self) -> Iterator[Finding]:
        """Check that each interface is up and has a carrier."""
        down = {
            name: end.nic
            for name, end in self.ends.items()
            if end.nic is not None and not is_up(end.nic)
        }
        off = [name for name, nic in down.items() if not nic["running"]]
        for name, nic in down.items():
            self.explain_node(name)
            if nic["running"] and off and len(self.ends) == PAIR:
                continue  # the interface at the other end of its cable is off
            interface = nic["name"]
            if nic["running"]:
                cause, state = f"the interface {interface} of {name} has no carrier", "no carrier"
                fix = "check cable, transceiver and switch port"
            else:
                cause, state = f"the interface {interface} of {name} is down", "down"
                fix = (
                    f"on {name}: ip link set {interface} up. Then find the program that set it down"
                )
            fault = RailFault("VC-232", cause, f"{interface}: {state}", "up, with a carrier", fix)
            yield self.make_finding(name, fault)

    def check_mtus(self) -> Iterator[Finding]:
        """Check that all interfaces have the planned MTU, or else the same one."""
        sizes = {name: end.nic["mtu"] for name, end in self.ends.items() if end.nic is not None}
        usual = Counter(sizes.values()).most_common(1)[0][0] if sizes else 0
        if len(set(sizes.values())) == PAIR == len(sizes):
            usual = max(sizes.values())
        for name, size in sizes.items():
            link = self.ends[name].link
            wanted = (link["mtu"] if link else 0) or usual
            nic = self.ends[name].nic
            if size == wanted or nic is None:
                continue
            fault = RailFault(
                "VC-233",
                f"the MTU of {nic['name']} of {name} is {size} instead of {wanted}",
                f"{size} bytes",
                f"{wanted} bytes",
                f"{self.seen.apply('network')}. At once: ip link set {nic['name']} mtu {wanted}",
            )
            yield self.make_finding(name, fault)

    def check_owners(self) -> Iterator[Finding]:
        """Check that no other machine has an address of the rail."""
        macs = map_rail_macs(self.seen)
        for name, end in self.ends.items():
            own = {nic["mac"] for nic in self.seen.survey(name).get("interfaces", [])}
            others = {
                one["mac"]
                for one in self.probes.get(name, NO_PROBE)["duplicates"]
                if one["rail"] == self.rail["name"] and one["mac"] not in own
            }
            if not others:
                continue
            mac = next((one for one in sorted(others) if one in macs), min(others))
            holder, interface = macs.get(mac, ("", ""))
            who = f"{interface} of {holder}" if holder else "another machine"
            self.explain_node(name)
            fix = f"on {holder}: ip address show to {end.ip}. Then remove it there"
            if not holder:
                fix = f"find {mac} in the switch's table, and give that machine another address"
            fault = RailFault(
                "VC-237",
                f"{who} has the address {end.ip} of {name}, too",
                f"{join_names(sorted(others)[:SHOWN])} answers for {end.ip}",
                f"only {end.wanted} of {name}",
                fix,
            )
            yield self.make_finding(name, fault)

    def check_queues(self) -> Iterator[Finding]:
        """Check that no queue slows an interface down."""
        for name, end in self.ends.items():
            nic = end.nic
            held = [
                one
                for one in self.probes.get(name, NO_PROBE)["queues"]
                if nic is not None and one["card"] == nic["name"] and is_slow_queue(nic, one)
            ]
            for one in held[:1]:
                self.explain_node(name)
                side = "root" if one["side"] == "egress" else "ingress"
                fault = RailFault(
                    "VC-238",
                    f"{one['card']} of {name} {describe_queue(one)} (tc {one['what']})",
                    f"tc {one['what']} on {one['card']} ({one['side']}): {describe_queue(one)}",
                    "no traffic shaping",
                    f"on {name}: tc qdisc del dev {one['card']} {side}. Then find the program that adds it",
                )
                yield self.make_finding(name, fault)

    # --- the kernels' decisions

    def check_routes(self) -> Iterator[Finding]:
        """Check that packets from the rail's address leave by its interface, straight to the peer."""
        for name, held in self.group_links(lambda end, one: bool(describe_detour(end, one))):
            end, one = self.ends[name], held[0]
            nic = end.holder["name"] if end.holder else end.wanted
            via = f" via {one['via']}" if one["via"] else ""
            fault = RailFault(
                "VC-234",
                f"{name} sends packets of the rail {describe_detour(end, one)}",
                f"ip route get {one['address']} from {one['own']}: {one['error'] or one['dev']}{via}",
                f"dev {nic}",
                f"{self.seen.apply('network')}. Check: ip rule; ip route show table all dev {nic}",
            )
            yield self.make_finding(name, fault, sorted({link["node"] for link in held}))

    def check_reverse_paths(self) -> Iterator[Finding]:
        """Check that the kernel accepts packets of peers on the rail's interface."""
        for name, held in self.group_links(lambda _end, one: bool(one["refused"])):
            end, one = self.ends[name], held[0]
            nic = end.holder["name"] if end.holder else end.wanted
            text = f"{one['refused']} from {one['address']} to {one['own']}"
            fix = f"on {name}: ip route get {one['own']} from {one['address']} iif {nic}. Remove the route or rule"
            if one["refused"] == "EXDEV":
                text += ": rp_filter is strict, and the way back is another interface"
                fix = (
                    f"{self.seen.apply('tuning')}. At once: sysctl net.ipv4.conf.{nic}.rp_filter=2"
                )
            fault = RailFault(
                "VC-235",
                f"the kernel of {name} drops packets from {one['address']} that arrive on {nic}",
                text,
                "accepted",
                fix,
            )
            yield self.make_finding(name, fault, sorted({link["node"] for link in held}))

    def check_neighbours(self) -> Iterator[Finding]:
        """Check that packets go to the hardware address of the peer's interface on this rail."""
        macs = map_rail_macs(self.seen)
        wrong: dict[tuple[str, str, str], list[tuple[str, RailLink]]] = {}
        for source, one in self.links:
            end = self.ends[one["node"]]
            nic = end.holder or end.planned
            pair = frozenset((source, one["node"]))
            if pair in self.explained or one["via"] or not one["mac"] or nic is None:
                continue
            if one["mac"] == nic["mac"] or not nic["mac"]:
                continue
            owner, interface = macs.get(one["mac"], ("", ""))
            if owner == one["node"] and not one["by_hand"]:
                wrong.setdefault((owner, "", interface), []).append((source, one))
            else:
                wrong.setdefault((source, one["node"], ""), []).append((source, one))
        for (node, peer, interface), held in wrong.items():
            one = held[0][1]
            end = self.ends[one["node"]]
            nic = end.holder or end.planned
            right = nic["name"] if nic else end.wanted
            self.explained |= {frozenset((source, link["node"])) for source, link in held}
            if interface:
                cause = f"{node} answers ARP for {one['address']} on {interface}, the interface of another rail"
                fix = f"{self.seen.apply('tuning')}. At once: sysctl net.ipv4.conf.{right}.arp_ignore=1"
                fix += f", and of {interface}"
            else:
                kind = "a static" if one["by_hand"] else "an outdated"
                cause = f"{node} has {kind} neighbour entry for {peer}"
                fix = f"on {node}: ip neigh del {one['address']} dev {one['dev']}. Remove it from boot scripts"
            yield Finding(
                "VC-236",
                "L2",
                f"{self.rail['name']}: {cause}",
                node=node,
                peer=join_names(sorted({n for s, o in held for n in (s, o["node"])} - {node})),
                seen=f"{one['address']} lladdr {one['mac']}",
                expected=f"{nic['mac'] if nic else ''}, {right} of {one['node']}",
                fix=fix,
                pairs=tuple(sorted({(source, link["node"]) for source, link in held})),
            )

    # --- connections without a deeper cause

    def check_failed_links(self) -> Iterator[Finding]:
        """Explain connections that failed: by firewall rules or packet sizes, or not at all."""
        rest: dict[frozenset[str], list[tuple[str, RailLink]]] = {}
        rules: dict[tuple[str, PacketVerdict], list[tuple[str, RailLink]]] = {}
        for source, one in self.failed:
            pair = frozenset((source, one["node"]))
            connected = one["verdict"] not in (*BLOCKED, "no_route")
            rule = None if connected else self.find_rule(source, one)
            if rule:
                rules.setdefault(rule, []).append((source, one))
            else:
                rest.setdefault(pair, []).append((source, one))
        for (node, stop), held in rules.items():
            yield self.make_rule_finding(node, stop, held)
        for held in rest.values():
            yield self.make_silence_finding(held)

    def make_rule_finding(
        self, node: str, stop: PacketVerdict, held: Sequence[tuple[str, RailLink]]
    ) -> Finding:
        """Make the finding for a rule that stops connections. RDMA hardware passes by the kernel's rules."""
        pairs = sorted({(source, one["node"]) for source, one in held})
        works = {
            (one.source, one.target, str(gid_to_address(one.said["gid"])))
            for one in list_rdma_tries(self.seen)
            if one.passed
        }
        spared = all((source, one["node"], one["own"]) in works for source, one in held)
        removal = f"nft delete rule {stop.table} {stop.chain} handle {stop.handle}"
        return Finding(
            "VC-239",
            "L2",
            f"{self.rail['name']}: the table {stop.table} of {node} {VERBS[stop.verdict]} packets: "
            + join_names([f"{source} -> {target}" for source, target in pairs[:SHOWN]]),
            node=node,
            peer=join_names(sorted({name for pair in pairs for name in pair} - {node})),
            seen=f"table {stop.table} chain {stop.chain}: {stop.text}",
            expected="accepted between the addresses of the rail",
            fix=f"on {node}: {removal}" if stop.handle else self.seen.apply("firewall"),
            severity=WARNING if spared else ERROR,
            pairs=tuple(pairs),
        )

    def make_silence_finding(self, held: Sequence[tuple[str, RailLink]]) -> Finding:
        """Make the finding for failed connections between two nodes."""
        source, one = held[0]
        target = one["node"]
        pairs = tuple(sorted({(name, link["node"]) for name, link in held}))
        both = len(pairs) == PAIR
        way = f"{source} <-> {target}" if both else f"{source} -> {target}"
        if all(link["verdict"] == HOLE for _, link in held):
            code, cause = "VC-241", f"large packets are lost: {way}"
            fix = f"set one MTU on all switch ports of the rail. Check: ping -M do -s {self.find_mtu(source) - 28} "
            fix += f"-I {one['own']} {one['address']}"
        else:
            code, cause = "VC-240", f"no connection: {way}"
            fix = (
                "check the cable, the VLAN of both switch ports, and firewalls between the nodes. "
            )
            fix += f"Check: ping -I {one['own']} {one['address']}"
        return Finding(
            code,
            "L2",
            f"{self.rail['name']}: {cause}",
            node=source,
            peer=target,
            direction=way,
            seen=f"{one['own']} -> {one['address']}: {describe_failure(one)}",
            expected=OPEN,
            fix=fix,
            pairs=pairs,
        )

    def find_mtu(self, node: str) -> int:
        """Return the MTU of a node's interface."""
        nic = self.ends[node].nic
        return nic["mtu"] if nic else 1500

    def find_port(self, node: str) -> int:
        """Return the port of a node's listener on this rail, 0 for none."""
        opened = self.seen.nodes.get(node, {}).get("node", {}).get("rails", [])
        return next((one["port"] for one in opened if one["rail"] == self.rail["name"]), 0)

    def get_interface_name(self, node: str) -> str:
        """Return the interface of a node's end."""
        nic = self.ends[node].nic
        return nic["name"] if nic else self.ends[node].wanted

    def hear_wrong_end(self, source: str, link: RailLink) -> tuple[str, str]:
        """Return the node and the interface that answer instead of the peer's end, ("", "") if none does.

        At a switch, another interface of the peer answers. On a cable, that of a third node may.
        """
        own, right = self.ends[source].nic, self.ends[link["node"]].nic
        heard = {
            one["mac"]
            for one in self.probes.get(source, NO_PROBE)["heard"]
            if own is not None and one["nic"] == own["name"]
        }
        if right is None or right["mac"] in heard:
            return "", ""
        macs = map_rail_macs(self.seen)
        found = [macs[mac] for mac in sorted(heard) if mac in macs]
        theirs = [one for one in found if one[0] == link["node"]]
        strange = [one for one in found if one[0] not in self.ends]
        return next(iter(theirs or strange), ("", ""))

    def find_rule(self, source: str, link: RailLink) -> tuple[str, PacketVerdict] | None:
        """Return the node and the rule of its packet filter that stops a connection or its answers, if there is one."""
        evidence = ClusterEvidence(seen=self.seen, plan=self.seen.plan)
        family = "6" if ":" in link["own"] else "4"
        target, port = link["node"], self.find_port(link["node"])
        sent, reached = (
            Packet(
                family,
                link["own"],
                link["address"],
                "tcp",
                port,
                self.get_interface_name(node),
                leaves,
            )
            for node, leaves in ((source, True), (target, False))
        )
        back = self.seen.plan["data_ports"]["first"]
        for node, packet in (
            (source, sent),
            (target, reached),
            (target, make_reply_packet(reached, back)),
            (source, make_reply_packet(sent, back)),
        ):
            verdict = evaluate_packet(evidence.ruleset(node), packet)
            if verdict.verdict != ACCEPT:
                return node, verdict
        return None

    # --- helpers for links

    def group_links(
        self, is_wrong: Callable[[RailEnd, RailLink], bool]
    ) -> list[tuple[str, list[RailLink]]]:
        """Return the sources of links that are wrong, and these links. Their failures have a cause then."""
        found: dict[str, list[RailLink]] = {}
        for source, one in self.links:
            pair = frozenset((source, one["node"]))
            if pair not in self.explained and is_wrong(self.ends[source], one):
                found.setdefault(source, []).append(one)
        for source, held in found.items():
            self.explained |= {frozenset((source, one["node"])) for one in held}
        return list(found.items())


def check_cables(checks: Sequence[RailCheck]) -> Iterator[Finding]:
    """Explain failed connections by cables that lead to another rail.

    If the other rail works between the same nodes, one switch carries both rails, and the cables are right.
    """
    rails = {
        (node, check.get_interface_name(node)): check for check in checks for node in check.ends
    }
    wrong: dict[WrongCable, tuple[RailCheck, str]] = {}
    for check in checks:
        for source, link in check.failed:
            node, nic = check.hear_wrong_end(source, link)
            other = rails.get((node, nic))
            if not node or other is check:
                continue
            if other is not None and any(
                link["verdict"] == OPEN and {source, node} == {name, link["node"]}
                for name, link in other.links
            ):
                continue
            name = other.rail["name"] if other else ""
            cable = WrongCable(
                check.rail["name"], source, check.get_interface_name(source), name, node, nic
            )
            wrong[cable] = (check, link["node"])
    for finding, cables in fold_wrong_cables(list(wrong)):
        pairs = {(one.node, wrong[one][1]) for one in cables}
        for one in cables:
            check, peer = wrong[one]
            check.explained.add(frozenset((one.node, peer)))
        yield replace(finding, pairs=tuple(sorted(pairs | {(two, one) for one, two in pairs})))


def check_rails(seen: ClusterObservations) -> Iterator[Finding]:
    """Check the plan's rails, the deepest causes first."""
    probes = {
        name: probe
        for name in seen.plan["nodes"]
        if (probe := seen.nodes.get(name, {}).get("links", {}).get("rails"))
    }
    checks = [
        RailCheck(seen, rail, ends, probes)
        for rail in seen.plan.get("rails", [])
        if (ends := list_rail_ends(seen, rail))
    ]
    for check in checks:
        for step in (
            check.check_carriers,
            check.check_addresses,
            check.check_mtus,
            check.check_owners,
            check.check_routes,
            check.check_reverse_paths,
            check.check_neighbours,
            check.check_queues,
        ):
            yield from step()
    yield from check_cables(checks)
    for check in checks:
        yield from check.check_failed_links()
