"""Locate the cluster in EC2: the filters for queries, the nodes' interfaces and their groups."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fullmesh.ec2 import model as ec2_model
from fullmesh.ec2 import rules as ec2_rules
from fullmesh.ec2.model import Ec2Interface, Ec2Resources, SecurityGroup
from fullmesh.ec2.settings import GROUP_ID, SecurityGroupSettings
from fullmesh.faults import Fault
from fullmesh.model.types import ClusterPlan
from fullmesh.result.survey import get_survey

VENDOR = "Amazon EC2"  # /sys/class/dmi/id/sys_vendor of every Nitro instance
CHUNK = 100  # DescribeNetworkInterfaces takes 200 values in a filter


def build_address_filters(plan: ClusterPlan) -> list[dict[str, list[str]]]:
    """Build the filters of ``ec2_eni_info`` that find every cluster address."""
    keys = {4: "addresses.private-ip-address", 6: "ipv6-addresses.ipv6-address"}
    result = []
    for version, key in keys.items():
        own = [one for one in plan["peers"] if ipaddress.ip_address(one).version == version]
        result += [{key: own[at : at + CHUNK]} for at in range(0, len(own), CHUNK)]
    return result


def build_instance_filters(interfaces: Iterable[Mapping[str, Any]]) -> list[dict[str, list[str]]]:
    """Build the filters for all other interfaces of the instances. A p5 has 32 EFA interfaces without addresses."""
    own = sorted({ec2_model.parse_ec2_interface(one).instance for one in interfaces} - {""})
    return [{"attachment.instance-id": own[at : at + CHUNK]} for at in range(0, len(own), CHUNK)]


def find_created_groups(groups: Iterable[Mapping[str, Any]], name: str) -> list[str]:
    """Return the ids of the groups that Fullmesh created for the cluster *name*."""
    known = map(ec2_model.parse_ec2_group, groups)
    return [group.id for group in known if group.tags.get(ec2_rules.TAG) == name]


@dataclass(frozen=True)
class ClusterLocation:
    """The location of the cluster in EC2.

    Attributes:
        vpc: its VPC.
        members: nodes that were found in it, by rank.
        interfaces: node -> every interface that cluster traffic uses.
        faults: one for each node that was not found.
    """

    vpc: str
    members: tuple[ec2_rules.Ec2Node, ...]
    interfaces: Mapping[str, tuple[Ec2Interface, ...]]
    faults: tuple[Fault, ...]


def needs_ec2_check(hosts: Iterable[tuple[Iterable[str], Mapping[str, Any]]]) -> bool:
    """Return whether a diagnosis must query AWS: a node is an EC2 instance, or the inventory sets security groups.

    Args:
        hosts: the names of the variables of each host, and the survey of the node.
    """
    for names, said in hosts:
        efa = get_survey({"node": said}).get("efa")
        vendor = efa.get("vendor") if isinstance(efa, Mapping) else ""
        if vendor == VENDOR or any(name.startswith("ec2_security_group_") for name in names):
            return True
    return False


def locate_cluster(
    seen: Ec2Resources, plan: ClusterPlan, own: SecurityGroupSettings
) -> ClusterLocation:
    """Find the nodes' interfaces by their cluster addresses."""
    order = sorted(plan["nodes"].values(), key=lambda node: int(node["node_rank"]))
    held = {
        str(node["name"]): [one for one in seen.interfaces if str(node["address"]) in one.addresses]
        for node in order
    }
    home = own.vpc_id or _find_cluster_vpc(seen, own, held)
    faults: list[Fault] = []
    members, interfaces = [], {}
    for node in order:
        name, address = str(node["name"]), str(node["address"])
        chosen = _choose_interface(name, address, held[name], home, faults)
        if chosen:
            members.append(ec2_rules.Ec2Node(name, address, chosen))
            interfaces[name] = _list_used_interfaces(seen, chosen, node)
    return ClusterLocation(home, tuple(members), interfaces, tuple(faults))


def _find_cluster_vpc(
    seen: Ec2Resources, own: SecurityGroupSettings, held: Mapping[str, Sequence[Ec2Interface]]
) -> str:
    """Return the VPC of an existing group, or the VPC with most nodes (then the lowest rank)."""
    for one in own.groups:
        if one in seen.groups:
            return seen.groups[one].vpc
    counts: Counter[str] = Counter()
    for interfaces in held.values():
        counts.update({one.vpc for one in interfaces})
    if counts:
        return counts.most_common(1)[0][0]
    # no node is left: undo still finds the group that was created for them
    ours = [group for group in seen.groups.values() if group.tags.get(ec2_rules.TAG) == own.name]
    return ours[0].vpc if ours else ""


def build_group_filters(
    interfaces: Iterable[Mapping[str, Any]], vpc: str, name: str
) -> dict[str, str | list[str]]:
    """Build the filter of ``ec2_security_group_info``: the nodes' VPCs or, without nodes, the group made for them."""
    vpcs = {ec2_model.parse_ec2_interface(one).vpc for one in interfaces} | {vpc}
    vpcs -= {""}
    return {"vpc-id": sorted(vpcs)} if vpcs else {f"tag:{ec2_rules.TAG}": name}


def _choose_interface(
    name: str, address: str, held: Sequence[Ec2Interface], home: str, faults: list[Fault]
) -> Ec2Interface | None:
    inside = [one for one in held if one.vpc == home]
    if len(inside) == 1:
        return inside[0]
    if len(inside) > 1:
        text = f"{name}: {', '.join(one.id for one in inside)} all have {address}"
        faults.append(Fault("EC-109", text, "Use a different address for each node"))
    elif held:
        where = f"{held[0].instance or held[0].id} in {held[0].vpc}"
        text = f"{name} ({address}) is {where}, but the cluster's VPC is {home}"
        step = "Launch the node in the cluster's VPC (security groups are per VPC), or set ec2_security_group_vpc_id"
        faults.append(Fault("EC-110", text, step))
    else:
        text = f"{name}: no network interface has the cluster address {address}"
        step = (
            "Check: aws ec2 describe-network-interfaces. "
            "Fix: correct the node's address, or set AWS_REGION or ec2_security_group_region to its region"
        )
        faults.append(Fault("EC-108", text, step))
    return None


def _list_used_interfaces(
    seen: Ec2Resources, chosen: Ec2Interface, node: Mapping[str, Any]
) -> tuple[Ec2Interface, ...]:
    """List the instance's interfaces with addresses of the plan, and its EFA interfaces. The cluster's comes first."""
    planned = {
        str(address).split("/", maxsplit=1)[0]
        for link in node.get("links") or []  # the plan of a diagnosis may only have an address
        for address in link["addresses"]
    }
    others = [
        one
        for one in seen.interfaces
        if one.id != chosen.id
        and one.instance
        and one.instance == chosen.instance
        and (one.efa or planned & set(one.addresses))
    ]
    return (chosen, *sorted(others, key=lambda one: one.id))


def find_cluster_groups(
    seen: Ec2Resources, own: SecurityGroupSettings, home: str, faults: list[Fault]
) -> list[SecurityGroup]:
    """Return the groups that every member must have, or []. The first one gets Fullmesh's rules."""
    inside = [group for group in seen.groups.values() if group.vpc == home]
    if own.groups:
        found = [_find_named_group(seen, one, inside, home, faults) for one in own.groups]
        return [group for group in found if group]
    named = [group for group in inside if group.name == own.name]
    if named and named[0].tags.get(ec2_rules.TAG) != own.name:
        text = f"{named[0]} already exists, and Fullmesh did not create it"
        step = (
            "Choose another ec2_security_group_name, or name the group in ec2_security_group_groups"
        )
        faults.append(Fault("EC-107", text, step))
    return named


def _find_named_group(
    seen: Ec2Resources, wanted: str, inside: Sequence[SecurityGroup], home: str, faults: list[Fault]
) -> SecurityGroup | None:
    if GROUP_ID.match(wanted):
        matching = [group for group in seen.groups.values() if group.id == wanted]
    else:
        tag, _equals, value = wanted.partition("=")
        matching = [group for group in inside if group.tags.get(tag) == value]
    if len(matching) == 1 and matching[0].vpc == home:
        return matching[0]
    if len(matching) == 1:
        text = f"the group {matching[0]} is in {matching[0].vpc}, but the nodes are in {home}"
        faults.append(Fault("EC-110", text, "Name a group of the nodes' VPC"))
    elif matching:
        text = f"{wanted} is the tag of {', '.join(map(str, matching))}"
        faults.append(Fault("EC-106", text, "Name the group by its id"))
    else:
        text = f"there is no security group {wanted} in {home or 'the VPC of the nodes'}"
        faults.append(
            Fault(
                "EC-105",
                text,
                "Check: aws ec2 describe-security-groups. Fix: correct ec2_security_group_groups, or the region",
            )
        )
    return None
