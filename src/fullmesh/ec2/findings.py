"""Find settings in EC2 that separate the nodes."""

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

# replies to an ssh client go to any port that a client may use (RFC 6335, and the ranges of NATs)
CLIENT_PORTS = Need("tcp", 1024, 65535)
# findings that a run of the role fixes
FIXED = ("EC-111", "EC-112", "EC-113")
# Between the two parts of a fault's step that has both.
CHECK_END = ". Fix: "


Pairs = tuple[tuple[str, str], ...]


def make_ec2_finding(code: str, cause: str, **more: Any) -> Finding:
    """Make a finding of check L2, because AWS blocks links."""
    return Finding(code, "L2", cause, **more)


def fault_to_finding(fault: Fault, node: str = "", pairs: Pairs = ()) -> Finding:
    """Turn a fault of :mod:`fullmesh.ec2` into a finding."""
    check, _, fix = fault.step.rpartition(CHECK_END)
    return make_ec2_finding(
        fault.code,
        fault.text,
        node=node,
        check=check.removeprefix("Check: "),
        fix=fix,
        pairs=pairs,
    )


def list_node_pairs(names: Sequence[str], node: str = "") -> Pairs:
    """List all ordered pairs of nodes, or those that include *node*."""
    every = tuple((one, other) for one in names for other in names if one != other)
    return tuple(pair for pair in every if not node or node in pair)


def check_ec2(
    raw: Mapping[str, Any],
    plan: ClusterPlan,
    own: SecurityGroupSettings,
    ephemeral: Sequence[tuple[int, int]] = (),
) -> list[Finding]:
    """Return a finding for everything that is wrong in the account.

    Args:
        raw: ``interfaces``, ``groups`` and ``acls`` as amazon.aws returned them.
        plan: the cluster plan.
        own: the settings. If the group does not exist, the nodes' existing groups are checked.
        ephemeral: the ports that the nodes use for outgoing connections. Default: the plan's data range.
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
        groups = []  # a group with this name that Fullmesh did not create
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
    """Check that every interface has the named groups, and that they contain every rule."""
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
            # an ssh client is not a pair of nodes
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
    """Format the command that adds the rule, for users who do not use the role."""
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
    """Check the traffic that the nodes' own groups allow between every two nodes, if no group is named."""
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
    """Make one finding per group and direction, for any number of nodes."""
    found = []
    for (_groups, direction), gaps in shut.items():
        here, peer = next(iter(gaps.values()))[0]
        shared = [one for one in here.interface.groups if one in peer.interface.groups]
        main = next((seen.groups[one] for one in shared if one in seen.groups), None)
        if main is None:
            continue  # the account may not see the group
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
    """Make one finding per node for nodes without a common group."""
    by_node: dict[str, list[Ec2Node]] = {}
    members: dict[str, Ec2Node] = {}
    for here, peer in pairs:
        members[here.node] = here
        by_node.setdefault(here.node, []).append(peer)
    found: list[Finding] = []
    named: set[str] = set()
    # the node that shares a group with the fewest others is probably wrong
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
    """Check requests and replies between nodes in different subnets, and from outside clients."""
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
            # an IPv6 client cannot reach an IPv4 address
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
    """List ports, each with the service of the plan that it belongs to."""
    parts = []
    for need in dict.fromkeys(needs):
        owners = services.find_range_services(plan, need.protocol, PortRange(need.first, need.last))
        parts.append(f"{need} ({', '.join(owners)})" if owners else str(need))
    return ", ".join(parts)


def _fold_acl_gaps(
    code: str,
    gaps: Iterable[ec2_acl.AclGap],
    ends: Mapping[str, ec2_acl.AclEndpoint],
    plan: ClusterPlan,
) -> list[Finding]:
    """Make one finding per ACL, subnet, direction and entry."""
    folded: dict[tuple[str, str, str, int], list[ec2_acl.AclGap]] = {}
    for gap in sorted(set(gaps)):
        key = (gap.acl, gap.subnet, gap.direction, gap.number)
        folded.setdefault(key, []).append(gap)
    names = {end.address: node for node, end in ends.items()}
    found = []
    for (acl, subnet, direction, number), own in folded.items():
        ports = ", ".join(dict.fromkeys(str(gap.need) for gap in own))
        # replies go to a client's port, which belongs to no service
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
                check=f"aws ec2 describe-network-acls --network-acl-ids {acl}",
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
    """List pairs of the ACL's subnet and other nodes, in both directions: without replies, no connection works."""
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
    """Report rules of other owners that open ssh to everybody. Fullmesh does not remove them."""
    used = dict.fromkeys(
        one for member in place.members for one in member.interface.groups if one in seen.groups
    )
    return [
        make_ec2_finding(
            "EC-118",
            f"security group {group} allows everyone: {rule}",
            port="22/tcp",
            seen=rule.target,
            fix="Set ec2_security_group_ssh_from to the addresses that you work from, and remove this rule",
            severity=WARNING,
        )
        for group, rule in ec2_rules.find_open_ssh_rules([seen.groups[one] for one in used])
    ]


def _has_efa_interface(place: ClusterLocation) -> bool:
    return any(one.efa for interfaces in place.interfaces.values() for one in interfaces)


def _check_efa_zones(place: ClusterLocation, own: SecurityGroupSettings) -> list[Finding]:
    """Check that all nodes have an EFA interface in one zone: EFA does not cross availability zones (AWS EFA guide)."""
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
            cause = f"{node}: the mode is efa, but none of its network interfaces is an EFA"
            fix = "Stop the instance and attach an EFA, or set ec2_security_group_mode: ports"
            found.append(make_ec2_finding("EC-125", cause, node=node, fix=fix, severity=WARNING))
    return found
