"""Compute the changes and the undo of role ec2_security_group in EC2.

Pure: Ansible reads the account through ``amazon.aws`` and applies the result of :func:`find_group_changes` and
:func:`find_undo_changes`. Findings about the account are in :mod:`fullmesh.ec2.findings`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh.ec2 import model as ec2_model
from fullmesh.ec2 import rules as ec2_rules
from fullmesh.ec2.model import Ec2Interface, Ec2Resources, Need, SecurityGroup, SecurityGroupRule
from fullmesh.ec2.place import ClusterLocation, find_cluster_groups, locate_cluster
from fullmesh.ec2.settings import SecurityGroupSettings
from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_decimal
from fullmesh.model.types import ClusterPlan

CODES: dict[str, str] = {
    "EC-101": "The mode does not exist",
    "EC-102": "An ssh source is not a network, or is the whole world",
    "EC-103": "An extra port is malformed",
    "EC-104": "A group has neither an id nor a tag",
    "EC-105": "A group does not exist",
    "EC-106": "Several groups have the tag",
    "EC-107": "A group that Fullmesh did not create has the group's name",
    "EC-108": "No network interface has a node's cluster address",
    "EC-109": "Several network interfaces have a node's cluster address",
    "EC-116": "A network interface has no room for another group",
    "EC-117": "A security group has no room for the rules",
    "EC-118": "ssh is open to the whole world (warning)",
    "EC-119": "EFA nodes are in different availability zones",
    "EC-120": "A name, limit or id is malformed",
    "EC-121": "boto3 is missing on the controller",
    "EC-122": "AWS rejects the query: check credentials, rights and region",
    "EC-123": "An undo would leave a network interface without any group",
    "EC-124": "Another resource still uses the security group, so undo cannot delete it",
    "EC-125": "The mode is `efa`, but a node has no EFA interface",
}

DESCRIPTION = "PyTorch-distributed cluster {name}, kept by Fullmesh"

# ids of access keys (IAM user guide, "unique identifiers"), and texts as long as a secret or a token
SECRET = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b|[A-Za-z0-9/+=]{40,}")


def make_aws_fault(result: Mapping[str, Any]) -> Fault:
    """Make the fault for a failed task that queried AWS, without texts that look like a secret.

    Args:
        result: the result of the task (``ansible_failed_result``), with or without a loop.
    """
    parts = [one for one in result.get("results") or [] if one.get("failed")] or [result]
    text = " ".join(str(parts[0].get("msg") or "no reason was given").split())
    text = SECRET.sub("…", text)[:400]
    if "boto3" in text or "botocore" in text:
        step = "Run pip install --require-hashes -r requirements-ec2.txt in the environment that runs Ansible"
        return Fault("EC-121", f"Fullmesh cannot query AWS: {text}", step)
    step = "Check: `aws sts get-caller-identity`, the permissions in docs/ec2.md, and AWS_REGION"
    return Fault("EC-122", f"AWS rejected the query: {text}", step)


def find_group_changes(
    raw: Mapping[str, Any], plan: ClusterPlan, own: SecurityGroupSettings
) -> dict[str, Any]:
    """Compute the changes to the account (docs: roles/ec2_security_group/README.md).

    Args:
        raw: ``interfaces``, ``groups`` and ``acls`` as amazon.aws returned them.
        plan: the cluster plan.
        own: the settings, free of faults.

    Returns:
        ``faults`` (if any, there are no changes), ``create``, ``group``, ``add``, ``remove``, ``attach`` (by node),
        ``missing`` (sentences).
    """
    seen = ec2_model.parse_ec2_answers(raw["interfaces"], raw["groups"], raw["acls"])
    place = locate_cluster(seen, plan, own)
    faults = list(place.faults)
    groups = find_cluster_groups(seen, own, place.vpc, faults)
    main = groups[0] if groups else None
    # only a new group has no id yet
    ident = main.id if main else ""
    wants = ec2_rules.build_group_rules(ident, own.needs(plan), own.guests(plan), own.name)
    addresses = [member.address for member in place.members]
    # rules that will be removed do not count as open
    going = ec2_rules.find_stale_rules(wants, main, own.name)
    staying = [
        ec2_rules.remove_group_rules(group, going) if group is main else group for group in groups
    ]
    lacks = ec2_rules.find_missing_rules(wants, staying, ident, addresses)
    attach = _find_interface_changes(
        seen, place, [group.id for group in groups] or [""], own, faults
    )
    _check_rule_quota(main, [rule for rule, _gap in lacks], own, faults)
    return {
        "faults": [str(fault) for fault in sorted(set(faults))],
        "create": main is None,
        "group": _build_group_argument(main, own, place.vpc),
        "add": _rules_to_arguments([rule for rule, _gap in lacks], ident, own.name),
        "remove": [ec2_rules.rule_to_permission(rule) for rule in going],
        "attach": attach,
        "missing": _describe_group_changes(main, own, lacks, attach),
    }


def _rules_to_arguments(
    rules: Sequence[SecurityGroupRule], ident: str, name: str
) -> dict[str, list[dict[str, Any]]]:
    """Convert the rules for ``amazon.aws.ec2_security_group``, by direction."""
    return {
        direction: [
            ec2_rules.rule_to_argument(rule, ident, name)
            for rule in rules
            if rule.direction == direction
        ]
        for direction in (ec2_model.IN, ec2_model.OUT)
    }


def _describe_group_changes(
    main: SecurityGroup | None,
    own: SecurityGroupSettings,
    lacks: Sequence[tuple[SecurityGroupRule, Sequence[Need]]],
    attach: Mapping[str, Sequence[Mapping[str, Any]]],
) -> list[str]:
    """Return one sentence for each change."""
    if main is None:
        return [f"security group {own.name} does not exist yet"]
    words = [str(make_rule_fault(main, rule, gap)) for rule, gap in lacks]
    return words + [str(one["fault"]) for entries in attach.values() for one in entries]


def make_rule_fault(main: SecurityGroup, rule: SecurityGroupRule, gap: Sequence[Need]) -> Fault:
    """Make the fault for a rule that a group lacks."""
    inward = rule.direction == ec2_model.IN
    whom = f"{'from' if inward else 'to'} {'itself' if rule.target == main.id else rule.target}"
    ports = ", ".join(str(need) for need in gap)
    code = "EC-113" if rule.protocol == ec2_model.ALL else "EC-112"
    why = ""
    if code == "EC-113" and not inward:
        why = " (the default outbound 0.0.0.0/0 does not replace it)"
    return Fault(
        code,
        f"security group {main} lacks a rule {whom} for {ports}{why}",
        "ansible-playbook playbooks/ec2.yml adds it",
    )


def _build_group_argument(
    main: SecurityGroup | None, own: SecurityGroupSettings, vpc: str
) -> dict[str, Any]:
    if main:
        return {
            "id": main.id,
            "name": main.name,
            "description": main.description,
            "vpc": vpc,
            "tags": {},
        }
    return {
        "id": "",
        "name": own.name,
        "description": DESCRIPTION.format(name=own.name),
        "vpc": vpc,
        "tags": ec2_rules.build_group_tags(own.name, own.tags),
    }


def _find_interface_changes(
    seen: Ec2Resources,
    place: ClusterLocation,
    groups: Sequence[str],
    own: SecurityGroupSettings,
    faults: list[Fault],
) -> dict[str, list[dict[str, Any]]]:
    """Map nodes to interfaces that lack a group. An empty id means the group that does not exist yet."""
    result: dict[str, list[dict[str, Any]]] = {}
    limit = parse_decimal(str(own.interface_limit)) or 0
    for node, interfaces in place.interfaces.items():
        for one in interfaces:
            absent = [group for group in groups if group not in one.groups]
            if not absent:
                continue
            if len(one.groups) + len(absent) > limit:
                text = f"{node}: {one.id} has {len(one.groups)} of {limit} groups ({seen.named(one.groups)})"
                step = "Remove a group, or raise the quota and ec2_security_group_interface_limit"
                faults.append(Fault("EC-116", text, step))
            result.setdefault(node, []).append(
                {
                    "eni": one.id,
                    "groups": [*one.groups, *absent],
                    "tags": _build_attached_tag(one, absent, own),
                    "fault": str(make_interface_fault(seen, node, one, absent, own)),
                }
            )
    return result


def make_interface_fault(
    seen: Ec2Resources,
    node: str,
    one: Ec2Interface,
    absent: Sequence[str],
    own: SecurityGroupSettings,
) -> Fault:
    """Make the fault for an interface without a group."""
    names = ", ".join(str(seen.groups.get(group, own.name)) for group in absent)
    return Fault(
        "EC-111",
        f"{node}: interface {one.id} is not in security group {names} (it has {seen.named(one.groups)})",
        "Run ansible-playbook playbooks/ec2.yml, which adds it",
    )


def format_tag_key(name: str) -> str:
    """Return the tag of an interface that records which groups Fullmesh attached."""
    return f"{ec2_rules.TAG}/{name}"


def _build_attached_tag(
    one: Ec2Interface, absent: Sequence[str], own: SecurityGroupSettings
) -> dict[str, str]:
    """Record the groups that undo must detach. A group that Fullmesh created needs no record."""
    if not own.groups:
        return {}
    before = one.tags.get(format_tag_key(own.name), "").split()
    return {format_tag_key(own.name): " ".join(dict.fromkeys([*before, *absent]))}


def _check_rule_quota(
    main: SecurityGroup | None,
    more: Sequence[SecurityGroupRule],
    own: SecurityGroupSettings,
    faults: list[Fault],
) -> None:
    """Check the quotas of IPv4 and IPv6 in each direction. A rule that names a group counts for both."""
    limit = parse_decimal(str(own.rule_limit)) or 0
    for direction in (ec2_model.IN, ec2_model.OUT):
        rules = [
            rule for rule in [*(main.rules if main else ()), *more] if rule.direction == direction
        ]
        for other in (".", ":"):  # the character that only networks of the other family contain
            count = sum(1 for rule in rules if other not in rule.target)
            if more and count > limit:
                text = f"security group {main or own.name} would have {count} of {limit} rules ({direction})"
                step = "Remove unused rules, or raise the quota and ec2_security_group_rule_limit"
                faults.append(Fault("EC-117", text, step))


def find_undo_changes(
    raw: Mapping[str, Any], plan: ClusterPlan, own: SecurityGroupSettings
) -> dict[str, Any]:
    """Compute the changes that restore the account: delete Fullmesh's group, or its rules and attachments.

    Args:
        raw: as for :func:`find_group_changes`. ``interfaces`` also has every interface of the VPC in one of the groups.
        plan: the cluster plan.
        own: the settings with which it was made.

    Returns:
        ``faults``, ``detach`` (interfaces with the groups that stay), ``remove`` (rules), ``delete`` (group id or "").
    """
    seen = ec2_model.parse_ec2_answers(raw["interfaces"], raw["groups"], raw["acls"])
    place = locate_cluster(seen, plan, own)
    # a node that no longer exists needs no undo
    faults: list[Fault] = []
    groups = [] if not place.vpc else find_cluster_groups(seen, own, place.vpc, faults)
    faults = [fault for fault in faults if fault.code not in ("EC-105", "EC-107")]
    ours = [group for group in groups if group.tags.get(ec2_rules.TAG) == own.name]
    mine = {one.id for interfaces in place.interfaces.values() for one in interfaces}
    detach = []
    for one in seen.interfaces:
        if one.id in mine:
            off = _find_groups_to_detach(one, groups, ours, own)
            if off:
                detach.append(_build_detachment(one, off, own, faults))
    delete = ours[0] if ours and not own.groups else None
    if delete:
        _check_group_unused(seen, delete, mine, faults)
    rules = [] if delete or not groups else ec2_rules.find_stale_rules([], groups[0], own.name)
    return {
        "faults": [str(fault) for fault in sorted(set(faults))],
        "detach": detach,
        "group": groups[0].id if rules else "",
        "remove": [ec2_rules.rule_to_permission(rule) for rule in rules],
        "delete": delete.id if delete else "",
    }


def _find_groups_to_detach(
    one: Ec2Interface,
    groups: Sequence[SecurityGroup],
    ours: Sequence[SecurityGroup],
    own: SecurityGroupSettings,
) -> list[str]:
    noted = one.tags.get(format_tag_key(own.name), "").split()
    made = [] if own.groups else [group.id for group in ours]
    return [
        group.id
        for group in groups
        if group.id in one.groups and (group.id in noted or group.id in made)
    ]


def _build_detachment(
    one: Ec2Interface, off: Sequence[str], own: SecurityGroupSettings, faults: list[Fault]
) -> dict[str, Any]:
    stay = [group for group in one.groups if group not in off]
    if not stay:
        text = f"{one.id} of {one.instance} has no other group than {', '.join(off)}"
        step = "EC2 needs at least one: attach a group to keep, and run undo again"
        faults.append(Fault("EC-123", text, step))
    key = format_tag_key(own.name)
    return {"eni": one.id, "groups": stay, "tag": key if key in one.tags else ""}


def _check_group_unused(
    seen: Ec2Resources, group: SecurityGroup, mine: set[str], faults: list[Fault]
) -> None:
    others = [one.id for one in seen.interfaces if group.id in one.groups and one.id not in mine]
    users = [
        str(other)
        for other in seen.groups.values()
        if other.id != group.id and any(rule.target == group.id for rule in other.rules)
    ]
    if others or users:
        text = f"security group {group} is also used by {', '.join(sorted(others) + sorted(users))}"
        step = (
            "Remove the group there (it may be a node that left the inventory), and run undo again"
        )
        faults.append(Fault("EC-124", text, step))
