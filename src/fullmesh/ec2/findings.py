"""What in EC2 keeps the nodes from each other: rules from what was read to findings, each by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fullmesh.ec2 import acl as ec2_acl
from fullmesh.ec2 import model as ec2_model
from fullmesh.ec2 import rules as ec2_rules
from fullmesh.ec2 import security_group as ec2
from fullmesh.ec2.model import ALL, IN, OUT, Group, Need, Seen
from fullmesh.ec2.place import Place, groups_of, locate
from fullmesh.ec2.rules import EFA, Member
from fullmesh.ec2.settings import Settings
from fullmesh.model import services
from fullmesh.model.faults import Fault
from fullmesh.model.types import Plan
from fullmesh.observed.ports import PortRange
from fullmesh.verify.model import ERROR, WARNING, Finding

# where an answer to somebody's ssh goes: any port that a client may have (RFC 6335, and what every NAT uses)
CLIENT_PORTS = Need("tcp", 1024, 65535)
# what a run of the role puts right
FIXED = ("EC-111", "EC-112", "EC-113")


Pairs = tuple[tuple[str, str], ...]


def finding(code: str, cause: str, **more: Any) -> Finding:
    """What AWS keeps from the nodes is a matter of links."""
    return Finding(code, "L2", cause, **more)


def text(one: Finding) -> str:
    """The coded sentence of a finding, as those of faults."""
    return str(Fault(one.code, one.cause, one.fix))


def of_fault(fault: Fault, node: str = "", pairs: Pairs = ()) -> Finding:
    """A fault of :mod:`fullmesh.ec2` as a finding."""
    return finding(fault.code, fault.text, node=node, fix=fault.step, pairs=pairs)


def pairs_of(names: Sequence[str], node: str = "") -> Pairs:
    """All ordered pairs of nodes, or those with *node* at one end."""
    every = tuple((one, other) for one in names for other in names if one != other)
    return tuple(pair for pair in every if not node or node in pair)


def findings(
    raw: Mapping[str, Any],
    plan: Plan,
    own: Settings,
    ephemeral: Sequence[tuple[int, int]] = (),
) -> list[Finding]:
    """Everything that is wrong in the account, [] when nothing is.

    Args:
        raw: ``interfaces``, ``groups`` and ``acls`` as amazon.aws returned them.
        plan: the cluster plan.
        own: the settings. Where the group is not there, the groups that the nodes do have are judged.
        ephemeral: the ports that the nodes take for outgoing connections; default: the plan's data range.
    """
    seen = ec2_model.read(raw["interfaces"], raw["groups"], raw["acls"])
    place = locate(seen, plan, own)
    faults: list[Fault] = []
    groups = groups_of(seen, own, place.vpc, faults)
    names = list(plan["nodes"])
    found = [
        of_fault(fault, node, pairs_of(names, node))
        for fault in place.faults
        for node in [
            next((one for one in names if fault.text.startswith((f"{one} (", f"{one}: "))), "")
        ]
    ]
    if own.groups:
        found += [of_fault(fault) for fault in faults]
    elif faults:
        groups = []  # somebody else's group of our name
    if groups:
        found += _known(seen, place, groups, plan, own)
    else:
        found += _unknown(seen, place, plan, own)
    found += _acls(seen, place, plan, own, ephemeral)
    found += _ssh(seen, place, own)
    found += _efa(place, own)
    return list(dict.fromkeys(found))


def _known(
    seen: Seen,
    place: Place,
    groups: Sequence[Group],
    plan: Plan,
    own: Settings,
) -> list[Finding]:
    """The groups are named: every interface must have them, and they must hold every rule."""
    found = []
    for node, interfaces in place.interfaces.items():
        for one in interfaces:
            absent = [group.id for group in groups if group.id not in one.groups]
            if absent:
                fault = ec2.bare_fault(seen, node, one, absent, own)
                found.append(of_fault(fault, node, pairs_of(list(plan["nodes"]), node)))
    main = groups[0]
    modes = {own.mode, EFA} if _has_efa(place) else {own.mode}
    addresses = [member.address for member in place.members]
    for mode in sorted(modes):
        needs = ec2_rules.needs(mode, services.opened(plan, "peers"), own.extra_ports)
        guests = own.guests(plan) if mode == own.mode else []
        wants = ec2_rules.wanted(main.id, needs, guests, own.name)
        for rule, gap in ec2_rules.missing(wants, groups, main.id, addresses):
            severity = WARNING if mode != own.mode else ERROR
            # somebody who comes by ssh is no pair of nodes
            pairs = pairs_of(list(plan["nodes"])) if rule.target == main.id else ()
            found.append(_lack(main, rule, gap, pairs, severity))
    return found


def _lack(
    main: Group, rule: ec2_model.Rule, gap: Sequence[Need], pairs: Pairs, severity: str = ERROR
) -> Finding:
    fault = ec2.lack_fault(main, rule, gap)
    return finding(
        fault.code,
        fault.text,
        port=", ".join(map(str, gap)),
        direction=rule.direction,
        seen=main.id,
        expected=str(rule),
        fix=_command(main.id, rule, gap),
        severity=severity,
        pairs=pairs,
    )


def _command(group: str, rule: ec2_model.Rule, gap: Sequence[Need]) -> str:
    """The command that fixes it, for those who do not use the role."""
    verb = "ingress" if rule.direction == IN else "egress"
    need = gap[0]
    ports = "" if need.protocol == ALL else f",FromPort={need.first},ToPort={need.last}"
    if rule.target.startswith("sg-"):
        source = f"UserIdGroupPairs=[{{GroupId={rule.target}}}]"
    elif ":" in rule.target:
        source = f"Ipv6Ranges=[{{CidrIpv6={rule.target}}}]"
    else:
        source = f"IpRanges=[{{CidrIp={rule.target}}}]"
    return (
        f"aws ec2 authorize-security-group-{verb} --group-id {group}"
        f" --ip-permissions 'IpProtocol={need.protocol}{ports},{source}'"
    )


def _unknown(seen: Seen, place: Place, plan: Plan, own: Settings) -> list[Finding]:
    """No group is named: what do the groups that the nodes have let through, between every two?"""
    needs = ec2_rules.needs(ec2_rules.PORTS, services.opened(plan, "peers"), own.extra_ports)
    if own.mode == EFA or _has_efa(place):
        needs = [*needs, ec2_rules.EVERYTHING]
    shut: dict[tuple[tuple[str, ...], str], dict[Need, list[tuple[Member, Member]]]] = {}
    apart: list[tuple[Member, Member]] = []
    for here in place.members:
        for peer in place.members:
            if here.node == peer.node:
                continue
            for direction in (IN, OUT):
                for need in needs:
                    for gap in ec2_rules.shut(seen, here, peer, direction, need):
                        if not set(here.interface.groups) & set(peer.interface.groups):
                            apart.append((here, peer))
                            continue
                        key = (here.interface.groups, direction)
                        shut.setdefault(key, {}).setdefault(gap, []).append((here, peer))
    return [*_apart(seen, apart), *_shut(seen, shut)]


def _shut(
    seen: Seen,
    shut: Mapping[tuple[tuple[str, ...], str], Mapping[Need, Sequence[tuple[Member, Member]]]],
) -> list[Finding]:
    """One finding for a group and direction, whatever the number of nodes."""
    found = []
    for (_groups, direction), gaps in shut.items():
        here, peer = next(iter(gaps.values()))[0]
        shared = [one for one in here.interface.groups if one in peer.interface.groups]
        main = next((seen.groups[one] for one in shared if one in seen.groups), None)
        if main is None:
            continue  # the account hides the group from us
        efa = [need for need in gaps if need.protocol == ALL]
        for part in (efa, [need for need in gaps if need.protocol != ALL]):
            if part:
                rule = ec2_model.Rule(
                    direction, part[0].protocol, part[0].first, part[0].last, main.id
                )
                both = [ends for need in part for ends in gaps[need]]
                pairs = [(one.node, other.node) for one, other in both]
                if direction == IN:
                    pairs = [(source, target) for target, source in pairs]
                found.append(_lack(main, rule, part, tuple(dict.fromkeys(pairs))))
    return found


def _apart(seen: Seen, pairs: Iterable[tuple[Member, Member]]) -> list[Finding]:
    """Nodes that have no group in common, folded to one finding for a node."""
    by_node: dict[str, list[Member]] = {}
    members: dict[str, Member] = {}
    for here, peer in pairs:
        members[here.node] = here
        by_node.setdefault(here.node, []).append(peer)
    found: list[Finding] = []
    named: set[str] = set()
    # the node that is apart from most is the one that is wrong
    for node, peers in sorted(by_node.items(), key=lambda item: (-len(item[1]), item[0])):
        rest = sorted({peer.node for peer in peers} - named)
        if not rest:
            continue
        named.add(node)
        here, peer = members[node], peers[0]
        cause = (
            f"{node}: interface {here.interface.id} has no security group in common with {', '.join(rest)}:"
            f" it has {seen.named(here.interface.groups)}, they have {seen.named(peer.interface.groups)}"
        )
        fix = "Attach one group to every node: ansible-playbook playbooks/ec2.yml"
        both = pairs_of([node, *rest], node)
        found.append(finding("EC-111", cause, node=node, peer=", ".join(rest), fix=fix, pairs=both))
    return found


def _acls(
    seen: Seen,
    place: Place,
    plan: Plan,
    own: Settings,
    ephemeral: Sequence[tuple[int, int]],
) -> list[Finding]:
    """Requests and answers between nodes of different subnets, and of those who come from outside."""
    data = plan["data_ports"]
    answers = [
        Need("tcp", first, last)
        for first, last in (ephemeral or [(int(data["first"]), int(data["last"]))])
    ]
    ends = {
        member.node: ec2_acl.End(member.address, member.interface.subnet)
        for member in place.members
    }
    asked: list[ec2_acl.Gap] = []
    answered: list[ec2_acl.Gap] = []
    for node, peer in ends.items():
        needs = own.needs_at(plan, node)
        for here in ends.values():
            asked += ec2_acl.gaps(seen, here, peer, needs)
            answered += ec2_acl.gaps(seen, here, peer, answers)
        for need, source in own.guests(plan, node):
            # who comes by IPv6 does not come to an IPv4 address
            if (":" in source) == (":" in peer.address):
                outside = ec2_acl.End(source)
                asked += ec2_acl.gaps(seen, outside, peer, [need])
                answered += ec2_acl.gaps(seen, peer, outside, [CLIENT_PORTS])
    known = set(asked)
    return [
        *_acl_findings("EC-114", asked, ends, plan),
        *_acl_findings("EC-115", [gap for gap in answered if gap not in known], ends, plan),
    ]


def _ports(needs: Iterable[Need], plan: Plan) -> str:
    """Ports in words, with the service of the plan to which they belong."""
    told = []
    for need in dict.fromkeys(needs):
        owners = services.owners(plan, need.protocol, PortRange(need.first, need.last))
        told.append(f"{need} ({', '.join(owners)})" if owners else str(need))
    return ", ".join(told)


def _acl_findings(
    code: str, gaps: Iterable[ec2_acl.Gap], ends: Mapping[str, ec2_acl.End], plan: Plan
) -> list[Finding]:
    """One finding for an ACL, subnet, direction and entry."""
    folded: dict[tuple[str, str, str, int], list[ec2_acl.Gap]] = {}
    for gap in sorted(set(gaps)):
        key = (gap.acl, gap.subnet, gap.direction, gap.number)
        folded.setdefault(key, []).append(gap)
    names = {end.address: node for node, end in ends.items()}
    found = []
    for (acl, subnet, direction, number), own in folded.items():
        ports = ", ".join(dict.fromkeys(str(gap.need) for gap in own))
        # answers go to a client's port, which is nobody's
        named = ports if code == "EC-115" else _ports((gap.need for gap in own), plan)
        others = ", ".join(dict.fromkeys(names.get(gap.address, gap.address) for gap in own))
        why = f"its rule {number} denies them" if number else "none of its rules allows them"
        way = "from" if direction == IN else "to"
        what = "answers" if code == "EC-115" else "traffic"
        bound = "inbound" if direction == IN else "outbound"
        found.append(
            finding(
                code,
                f"network ACL {acl} of {subnet} blocks {bound} {what} {way} {others} at {named}: {why}",
                peer=others,
                port=ports,
                direction=direction,
                seen=f"{acl} rule {number}" if number else acl,
                fix=f"Allow {ports} {bound} in {acl}"
                + (f", below rule {number}" if number else ""),
                pairs=_acl_pairs(own, ends, names, direction),
            )
        )
    return found


def _acl_pairs(
    gaps: Iterable[ec2_acl.Gap],
    ends: Mapping[str, ec2_acl.End],
    names: Mapping[str, str],
    direction: str,
) -> Pairs:
    """Between the nodes of the ACL's subnet and the others; without answers there is no connection the other way."""
    found: dict[tuple[str, str], None] = {}
    for gap in gaps:
        other = names.get(gap.address)
        for node, end in ends.items():
            if other and end.subnet == gap.subnet:
                found[(other, node) if direction == IN else (node, other)] = None
                found[(node, other) if direction == IN else (other, node)] = None
    return tuple(found)


def _ssh(seen: Seen, place: Place, own: Settings) -> list[Finding]:
    """Other people's rules stay, and are named."""
    used = dict.fromkeys(
        one for member in place.members for one in member.interface.groups if one in seen.groups
    )
    return [
        finding(
            "EC-118",
            f"security group {group} lets everybody in: {rule}",
            port="22/tcp",
            seen=rule.target,
            fix="Name the addresses that you work from in ec2_security_group_ssh_from, and take this rule away",
            severity=WARNING,
        )
        for group, rule in ec2_rules.open_to_all([seen.groups[one] for one in used])
    ]


def _has_efa(place: Place) -> bool:
    return any(one.efa for interfaces in place.interfaces.values() for one in interfaces)


def _efa(place: Place, own: Settings) -> list[Finding]:
    """EFA traffic does not cross availability zones (AWS EFA guide), and needs the interface."""
    if own.mode != EFA and not _has_efa(place):
        return []
    found = []
    zones: dict[str, list[str]] = {}
    for member in place.members:
        zones.setdefault(member.interface.zone, []).append(member.node)
    if len(zones) > 1:
        seen = "; ".join(f"{zone}: {', '.join(nodes)}" for zone, nodes in sorted(zones.items()))
        fix = "Launch all nodes in one zone, best in one cluster placement group"
        cause = f"EFA traffic does not cross availability zones ({seen})"
        found.append(finding("EC-119", cause, seen=seen, fix=fix))
    if own.mode == EFA:
        bare = [
            node
            for node, interfaces in place.interfaces.items()
            if not any(one.efa for one in interfaces)
        ]
        for node in bare:
            cause = f"{node}: the mode is efa, and none of its network interfaces is an EFA"
            fix = "Stop the instance and attach an EFA, or set ec2_security_group_mode: ports"
            found.append(finding("EC-125", cause, node=node, fix=fix, severity=WARNING))
    return found
