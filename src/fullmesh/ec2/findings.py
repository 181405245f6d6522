"""What in EC2 keeps the nodes from each other: rules from what was read to findings, each by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fullmesh.ec2 import acl as ec2_acl
from fullmesh.ec2 import model as ec2_model
from fullmesh.ec2 import rules as ec2_rules
from fullmesh.ec2 import security_group
from fullmesh.ec2.model import ALL, IN, OUT, Ec2Resources, Need, SecurityGroup
from fullmesh.ec2.place import ClusterLocation, find_cluster_groups, locate_cluster
from fullmesh.ec2.rules import EFA, Ec2Node
from fullmesh.ec2.settings import SecurityGroupSettings
from fullmesh.faults import Fault
from fullmesh.model import services
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.ports import PortRange
from fullmesh.result.findings import ERROR, WARNING, Finding

# where an answer to somebody's ssh goes: any port that a client may have (RFC 6335, and what every NAT uses)
CLIENT_PORTS = Need("tcp", 1024, 65535)
# what a run of the role puts right
FIXED = ("EC-111", "EC-112", "EC-113")


Pairs = tuple[tuple[str, str], ...]


def make_ec2_finding(code: str, cause: str, **more: Any) -> Finding:
    """What AWS keeps from the nodes is a matter of links."""
    return Finding(code, "L2", cause, **more)


def format_ec2_finding(one: Finding) -> str:
    """The coded sentence of a finding, as those of faults."""
    return str(Fault(one.code, one.cause, one.fix))


def fault_to_finding(fault: Fault, node: str = "", pairs: Pairs = ()) -> Finding:
    """A fault of :mod:`fullmesh.ec2` as a finding."""
    return make_ec2_finding(fault.code, fault.text, node=node, fix=fault.step, pairs=pairs)


def list_node_pairs(names: Sequence[str], node: str = "") -> Pairs:
    """All ordered pairs of nodes, or those with *node* at one end."""
    every = tuple((one, other) for one in names for other in names if one != other)
    return tuple(pair for pair in every if not node or node in pair)


def check_ec2(
    raw: Mapping[str, Any],
    plan: ClusterPlan,
    own: SecurityGroupSettings,
    ephemeral: Sequence[tuple[int, int]] = (),
) -> list[Finding]:
    """Everything that is wrong in the account, [] when nothing is.

    Args:
        raw: ``interfaces``, ``groups`` and ``acls`` as amazon.aws returned them.
        plan: the cluster plan.
        own: the settings. Where the group is not there, the groups that the nodes do have are judged.
        ephemeral: the ports that the nodes take for outgoing connections; default: the plan's data range.
    """
    seen = ec2_model.parse_ec2_answers(raw["interfaces"], raw["groups"], raw["acls"])
    place = locate_cluster(seen, plan, own)
    faults: list[Fault] = []
    groups = find_cluster_groups(seen, own, place.vpc, faults)
    names = list(plan["nodes"])
    found = [
        fault_to_finding(fault, node, list_node_pairs(names, node))
        for fault in place.faults
        for node in [
            next((one for one in names if fault.text.startswith((f"{one} (", f"{one}: "))), "")
        ]
    ]
    if own.groups:
        found += [fault_to_finding(fault) for fault in faults]
    elif faults:
        groups = []  # somebody else's group of our name
    if groups:
        found += _check_named_groups(seen, place, groups, plan, own)
    else:
        found += _check_attached_groups(seen, place, plan, own)
    found += _check_acls(seen, place, plan, own, ephemeral)
    found += _check_open_ssh(seen, place, own)
    found += _check_efa_zones(place, own)
    return list(dict.fromkeys(found))


def _check_named_groups(
    seen: Ec2Resources,
    place: ClusterLocation,
    groups: Sequence[SecurityGroup],
    plan: ClusterPlan,
    own: SecurityGroupSettings,
) -> list[Finding]:
    """The groups are named: every interface must have them, and they must hold every rule."""
    found = []
    for node, interfaces in place.interfaces.items():
        for one in interfaces:
            absent = [group.id for group in groups if group.id not in one.groups]
            if absent:
                fault = security_group.make_interface_fault(seen, node, one, absent, own)
                found.append(
                    fault_to_finding(fault, node, list_node_pairs(list(plan["nodes"]), node))
                )
    main = groups[0]
    modes = {own.mode, EFA} if _has_efa_interface(place) else {own.mode}
    addresses = [member.address for member in place.members]
    for mode in sorted(modes):
        needs = ec2_rules.list_member_needs(
            mode, services.list_open_ports(plan, "peers"), own.extra_ports
        )
        guests = own.guests(plan) if mode == own.mode else []
        wants = ec2_rules.build_group_rules(main.id, needs, guests, own.name)
        for rule, gap in ec2_rules.find_missing_rules(wants, groups, main.id, addresses):
            severity = WARNING if mode != own.mode else ERROR
            # somebody who comes by ssh is no pair of nodes
            pairs = list_node_pairs(list(plan["nodes"])) if rule.target == main.id else ()
            found.append(_make_rule_finding(main, rule, gap, pairs, severity))
    return found


def _make_rule_finding(
    main: SecurityGroup,
    rule: ec2_model.SecurityGroupRule,
    gap: Sequence[Need],
    pairs: Pairs,
    severity: str = ERROR,
) -> Finding:
    fault = security_group.make_rule_fault(main, rule, gap)
    return make_ec2_finding(
        fault.code,
        fault.text,
        port=", ".join(map(str, gap)),
        direction=rule.direction,
        seen=main.id,
        expected=str(rule),
        fix=_format_aws_command(main.id, rule, gap),
        severity=severity,
        pairs=pairs,
    )


def _format_aws_command(group: str, rule: ec2_model.SecurityGroupRule, gap: Sequence[Need]) -> str:
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


def _check_attached_groups(
    seen: Ec2Resources, place: ClusterLocation, plan: ClusterPlan, own: SecurityGroupSettings
) -> list[Finding]:
    """No group is named: what do the groups that the nodes have let through, between every two?"""
    needs = ec2_rules.list_member_needs(
        ec2_rules.PORTS, services.list_open_ports(plan, "peers"), own.extra_ports
    )
    if own.mode == EFA or _has_efa_interface(place):
        needs = [*needs, ec2_rules.EVERYTHING]
    shut: dict[tuple[tuple[str, ...], str], dict[Need, list[tuple[Ec2Node, Ec2Node]]]] = {}
    apart: list[tuple[Ec2Node, Ec2Node]] = []
    for here in place.members:
        for peer in place.members:
            if here.node == peer.node:
                continue
            for direction in (IN, OUT):
                for need in needs:
                    for gap in ec2_rules.find_blocked_ports(seen, here, peer, direction, need):
                        if not set(here.interface.groups) & set(peer.interface.groups):
                            apart.append((here, peer))
                            continue
                        key = (here.interface.groups, direction)
                        shut.setdefault(key, {}).setdefault(gap, []).append((here, peer))
    return [*_fold_unshared_groups(seen, apart), *_fold_blocked_ports(seen, shut)]


def _fold_blocked_ports(
    seen: Ec2Resources,
    shut: Mapping[tuple[tuple[str, ...], str], Mapping[Need, Sequence[tuple[Ec2Node, Ec2Node]]]],
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
                rule = ec2_model.SecurityGroupRule(
                    direction, part[0].protocol, part[0].first, part[0].last, main.id
                )
                both = [ends for need in part for ends in gaps[need]]
                pairs = [(one.node, other.node) for one, other in both]
                if direction == IN:
                    pairs = [(source, target) for target, source in pairs]
                found.append(_make_rule_finding(main, rule, part, tuple(dict.fromkeys(pairs))))
    return found


def _fold_unshared_groups(
    seen: Ec2Resources, pairs: Iterable[tuple[Ec2Node, Ec2Node]]
) -> list[Finding]:
    """Nodes that have no group in common, folded to one finding for a node."""
    by_node: dict[str, list[Ec2Node]] = {}
    members: dict[str, Ec2Node] = {}
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
        both = list_node_pairs([node, *rest], node)
        found.append(
            make_ec2_finding("EC-111", cause, node=node, peer=", ".join(rest), fix=fix, pairs=both)
        )
    return found


def _check_acls(
    seen: Ec2Resources,
    place: ClusterLocation,
    plan: ClusterPlan,
    own: SecurityGroupSettings,
    ephemeral: Sequence[tuple[int, int]],
) -> list[Finding]:
    """Requests and answers between nodes of different subnets, and of those who come from outside."""
    data = plan["data_ports"]
    answers = [
        Need("tcp", first, last)
        for first, last in (ephemeral or [(int(data["first"]), int(data["last"]))])
    ]
    ends = {
        member.node: ec2_acl.AclEndpoint(member.address, member.interface.subnet)
        for member in place.members
    }
    asked: list[ec2_acl.AclGap] = []
    answered: list[ec2_acl.AclGap] = []
    for node, peer in ends.items():
        needs = own.needs_at(plan, node)
        for here in ends.values():
            asked += ec2_acl.find_acl_gaps(seen, here, peer, needs)
            answered += ec2_acl.find_acl_gaps(seen, here, peer, answers)
        for need, source in own.guests(plan, node):
            # who comes by IPv6 does not come to an IPv4 address
            if (":" in source) == (":" in peer.address):
                outside = ec2_acl.AclEndpoint(source)
                asked += ec2_acl.find_acl_gaps(seen, outside, peer, [need])
                answered += ec2_acl.find_acl_gaps(seen, peer, outside, [CLIENT_PORTS])
    known = set(asked)
    return [
        *_fold_acl_gaps("EC-114", asked, ends, plan),
        *_fold_acl_gaps("EC-115", [gap for gap in answered if gap not in known], ends, plan),
    ]


def _describe_needs(needs: Iterable[Need], plan: ClusterPlan) -> str:
    """Ports in words, with the service of the plan to which they belong."""
    told = []
    for need in dict.fromkeys(needs):
        owners = services.find_range_services(plan, need.protocol, PortRange(need.first, need.last))
        told.append(f"{need} ({', '.join(owners)})" if owners else str(need))
    return ", ".join(told)


def _fold_acl_gaps(
    code: str,
    gaps: Iterable[ec2_acl.AclGap],
    ends: Mapping[str, ec2_acl.AclEndpoint],
    plan: ClusterPlan,
) -> list[Finding]:
    """One finding for an ACL, subnet, direction and entry."""
    folded: dict[tuple[str, str, str, int], list[ec2_acl.AclGap]] = {}
    for gap in sorted(set(gaps)):
        key = (gap.acl, gap.subnet, gap.direction, gap.number)
        folded.setdefault(key, []).append(gap)
    names = {end.address: node for node, end in ends.items()}
    found = []
    for (acl, subnet, direction, number), own in folded.items():
        ports = ", ".join(dict.fromkeys(str(gap.need) for gap in own))
        # answers go to a client's port, which is nobody's
        named = ports if code == "EC-115" else _describe_needs((gap.need for gap in own), plan)
        others = ", ".join(dict.fromkeys(names.get(gap.address, gap.address) for gap in own))
        why = f"its rule {number} denies them" if number else "none of its rules allows them"
        way = "from" if direction == IN else "to"
        what = "answers" if code == "EC-115" else "traffic"
        bound = "inbound" if direction == IN else "outbound"
        found.append(
            make_ec2_finding(
                code,
                f"network ACL {acl} of {subnet} blocks {bound} {what} {way} {others} at {named}: {why}",
                peer=others,
                port=ports,
                direction=direction,
                seen=f"{acl} rule {number}" if number else acl,
                fix=f"Allow {ports} {bound} in {acl}"
                + (f", below rule {number}" if number else ""),
                pairs=_list_acl_pairs(own, ends, names, direction),
            )
        )
    return found


def _list_acl_pairs(
    gaps: Iterable[ec2_acl.AclGap],
    ends: Mapping[str, ec2_acl.AclEndpoint],
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


def _check_open_ssh(
    seen: Ec2Resources, place: ClusterLocation, own: SecurityGroupSettings
) -> list[Finding]:
    """Other people's rules stay, and are named."""
    used = dict.fromkeys(
        one for member in place.members for one in member.interface.groups if one in seen.groups
    )
    return [
        make_ec2_finding(
            "EC-118",
            f"security group {group} lets everybody in: {rule}",
            port="22/tcp",
            seen=rule.target,
            fix="Name the addresses that you work from in ec2_security_group_ssh_from, and take this rule away",
            severity=WARNING,
        )
        for group, rule in ec2_rules.find_open_ssh_rules([seen.groups[one] for one in used])
    ]


def _has_efa_interface(place: ClusterLocation) -> bool:
    return any(one.efa for interfaces in place.interfaces.values() for one in interfaces)


def _check_efa_zones(place: ClusterLocation, own: SecurityGroupSettings) -> list[Finding]:
    """EFA traffic does not cross availability zones (AWS EFA guide), and needs the interface."""
    if own.mode != EFA and not _has_efa_interface(place):
        return []
    found = []
    zones: dict[str, list[str]] = {}
    for member in place.members:
        zones.setdefault(member.interface.zone, []).append(member.node)
    if len(zones) > 1:
        seen = "; ".join(f"{zone}: {', '.join(nodes)}" for zone, nodes in sorted(zones.items()))
        fix = "Launch all nodes in one zone, best in one cluster placement group"
        cause = f"EFA traffic does not cross availability zones ({seen})"
        found.append(make_ec2_finding("EC-119", cause, seen=seen, fix=fix))
    if own.mode == EFA:
        bare = [
            node
            for node, interfaces in place.interfaces.items()
            if not any(one.efa for one in interfaces)
        ]
        for node in bare:
            cause = f"{node}: the mode is efa, and none of its network interfaces is an EFA"
            fix = "Stop the instance and attach an EFA, or set ec2_security_group_mode: ports"
            found.append(make_ec2_finding("EC-125", cause, node=node, fix=fix, severity=WARNING))
    return found
