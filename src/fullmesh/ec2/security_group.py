"""ec2_security_group: settings, where the nodes are in EC2, and what has to be done or undone there.

Pure: Ansible reads the account through ``amazon.aws`` and does what :func:`todo` and :func:`undo` say. What is wrong
with what was read is in :mod:`fullmesh.ec2_findings`.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fullmesh.ec2 import model as ec2_model
from fullmesh.ec2 import rules as ec2_rules
from fullmesh.ec2.model import Group, Interface, Need, Rule, Seen
from fullmesh.model.faults import Fault
from fullmesh.model.types import Plan
from fullmesh.verify.survey import survey_of

CODES: dict[str, str] = {
    "EC-101": "a mode that does not exist",
    "EC-102": "an ssh source that is no network, or is the whole world",
    "EC-103": "a malformed extra port",
    "EC-104": "a group that is named neither by id nor by tag",
    "EC-105": "a group that is not there",
    "EC-106": "a tag that several groups have",
    "EC-107": "the group's name is taken by a group that Fullmesh did not make",
    "EC-108": "no network interface has a node's cluster address",
    "EC-109": "several network interfaces have a node's cluster address",
    "EC-110": "a node, or a group, in another VPC",
    "EC-111": "a network interface without the group",
    "EC-112": "a security group lacks a rule",
    "EC-113": "EFA without the rule for all traffic from or to the group itself",
    "EC-114": "a network ACL blocks the cluster's traffic",
    "EC-115": "a network ACL blocks the answers",
    "EC-116": "a network interface has no room for another group",
    "EC-117": "a security group has no room for the rules",
    "EC-118": "warning: ssh is open to the whole world",
    "EC-119": "EFA across availability zones",
    "EC-120": "a malformed name, limit or id",
    "EC-121": "boto3 is missing on the controller",
    "EC-122": "AWS gave no answer: credentials, rights or region",
    "EC-123": "undo would leave a network interface without any group",
    "EC-124": "undo: the group is still used by something else",
    "EC-125": "mode efa, and a node without an EFA interface",
}
GROUP_ID = re.compile(r"sg-[0-9a-f]{8,17}\Z")
VPC_ID = re.compile(r"vpc-[0-9a-f]{8,17}\Z")
# CreateSecurityGroup: these characters, and no name that looks like an id; shorter, so that descriptions fit into 255
GROUP_NAME = re.compile(r"(?!sg-)[A-Za-z0-9][A-Za-z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{0,99}\Z")
VENDOR = "Amazon EC2"  # /sys/class/dmi/id/sys_vendor of every Nitro instance
CHUNK = 100  # DescribeNetworkInterfaces takes 200 values in a filter
DESCRIPTION = "PyTorch-distributed cluster {name}, kept by Fullmesh"


@dataclass(frozen=True)
class Settings:
    """The role's settings, see its README."""

    mode: str = ec2_rules.PORTS
    name: str = "fullmesh"
    groups: tuple[str, ...] = ()
    ssh_from: tuple[str, ...] = ()
    extra_ports: tuple[str, ...] = ()
    vpc_id: str = ""
    interface_limit: object = 5
    rule_limit: object = 60
    tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any], plan: Plan) -> Settings:
        """Read the role's variables; the plan's controllers may use ssh as well."""

        def words(key: str) -> tuple[str, ...]:
            value = given.get(key) or []
            return tuple(str(one) for one in (value if isinstance(value, list) else [value]))

        sources = dict.fromkeys([*map(str, plan.get("controllers") or []), *words("ssh_from")])
        return cls(
            str(given.get("mode", ec2_rules.PORTS)),
            str(given.get("name", "fullmesh")),
            words("groups"),
            tuple(_network(one) for one in sources),
            words("extra_ports"),
            str(given.get("vpc_id") or ""),
            given.get("interface_limit", 5),
            given.get("rule_limit", 60),
            dict(given.get("tags") or {}),
        )

    def needs(self, plan: Plan) -> list[Need]:
        """What the members must let each other do."""
        return ec2_rules.needs(self.mode, plan["open_ports"], self.extra_ports)


def _network(text: str) -> str:
    """The network as EC2 writes it, or what was given when it is none."""
    try:
        return str(ipaddress.ip_network(text.strip(), strict=False))
    except ValueError:
        return text


def settings_faults(own: Settings) -> list[Fault]:
    """Say what is wrong with the settings, before AWS is asked anything."""
    found = []
    if own.mode not in (ec2_rules.PORTS, ec2_rules.EFA):
        text = f"ec2_security_group_mode is {own.mode!r}"
        found.append(Fault("EC-101", text, "Use ports, or efa for instances with EFA"))
    for source in own.ssh_from:
        if "/" not in _network(source) or source in ec2_rules.EVERYBODY:
            text = f"ssh from {source!r} is refused"
            found.append(Fault("EC-102", text, "Name the addresses or networks that you work from"))
    for port in own.extra_ports:
        try:
            ec2_rules.parse_need(port)
        except ValueError as error:
            text = f"ec2_security_group_extra_ports: {error}"
            found.append(Fault("EC-103", text, "Mend it"))
    for one in own.groups:
        tag, equals, _value = one.partition("=")
        if not GROUP_ID.match(one) and not (equals and tag):
            text = f"ec2_security_group_groups names {one!r}"
            found.append(Fault("EC-104", text, "Give an id (sg-…) or a tag (Name=my-group)"))
    return found + _form_faults(own)


def _form_faults(own: Settings) -> list[Fault]:
    found = []
    if not GROUP_NAME.match(own.name):
        text = f"ec2_security_group_name is {own.name!r}"
        step = (
            "Use up to 100 letters, digits and . _ - : / and begin with a letter or digit, not sg-"
        )
        found.append(Fault("EC-120", text, step))
    if own.vpc_id and not VPC_ID.match(own.vpc_id):
        text = f"ec2_security_group_vpc_id is {own.vpc_id!r}"
        found.append(Fault("EC-120", text, "Give an id like vpc-0a1b2c3d, or leave it empty"))
    for name, value in (
        ("interface_limit", own.interface_limit),
        ("rule_limit", own.rule_limit),
    ):
        if not str(value).isdigit() or not 1 <= int(str(value)) <= 1000:  # noqa: PLR2004 (AWS: their product)
            text = f"ec2_security_group_{name} is {value!r}"
            found.append(Fault("EC-120", text, "Give your account's quota, 1 to 1000"))
    return found


def address_filters(plan: Plan) -> list[dict[str, list[str]]]:
    """The filters of ``ec2_eni_info`` that find every cluster address."""
    keys = {4: "addresses.private-ip-address", 6: "ipv6-addresses.ipv6-address"}
    result = []
    for version, key in keys.items():
        own = [one for one in plan["peers"] if ipaddress.ip_address(one).version == version]
        result += [{key: own[at : at + CHUNK]} for at in range(0, len(own), CHUNK)]
    return result


def instance_filters(interfaces: Iterable[Mapping[str, Any]]) -> list[dict[str, list[str]]]:
    """The filters that find every other interface of the instances: a p5 has 32 EFA interfaces, without addresses."""
    own = sorted({ec2_model.interface(one).instance for one in interfaces} - {""})
    return [{"attachment.instance-id": own[at : at + CHUNK]} for at in range(0, len(own), CHUNK)]


def made_groups(groups: Iterable[Mapping[str, Any]], name: str) -> list[str]:
    """Ids of the groups that we made for the cluster *name*."""
    known = map(ec2_model.group, groups)
    return [group.id for group in known if group.tags.get(ec2_rules.TAG) == name]


# ids of access keys (IAM user guide, "unique identifiers"), and whatever is as long as a secret or a token
SECRET = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b|[A-Za-z0-9/+=]{40,}")


def no_answer(result: Mapping[str, Any]) -> Fault:
    """The fault for a failed task that asked AWS; what looks like a secret is left out.

    Args:
        result: what the task returned (``ansible_failed_result``), of a loop or not.
    """
    parts = [one for one in result.get("results") or [] if one.get("failed")] or [result]
    text = " ".join(str(parts[0].get("msg") or "no reason was given").split())
    text = SECRET.sub("…", text)[:400]
    if "boto3" in text or "botocore" in text:
        step = "pip install --require-hashes -r requirements-ec2.txt, into the environment that runs Ansible"
        return Fault("EC-121", f"AWS cannot be asked: {text}", step)
    step = "Check `aws sts get-caller-identity`, the rights in docs/ec2.md, and AWS_REGION"
    return Fault("EC-122", f"AWS gave no answer: {text}", step)


@dataclass(frozen=True)
class Place:
    """Where the cluster is.

    Attributes:
        vpc: its VPC.
        members: nodes that were found there, by rank.
        interfaces: node -> every interface that cluster traffic uses.
        faults: nodes that are not there, by name.
    """

    vpc: str
    members: tuple[ec2_rules.Member, ...]
    interfaces: Mapping[str, tuple[Interface, ...]]
    faults: tuple[Fault, ...]


def concerned(hosts: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a diagnosis has to ask AWS: a node is an EC2 instance, or the inventory speaks of security groups.

    Args:
        hosts: every host's variables, ``__diagnose_node`` (what the node said of itself) among them.
    """
    for own in hosts:
        efa = survey_of({"node": own.get("__diagnose_node")}).get("efa")
        vendor = efa.get("vendor") if isinstance(efa, Mapping) else ""
        if vendor == VENDOR or any(str(name).startswith("ec2_security_group_") for name in own):
            return True
    return False


def locate(seen: Seen, plan: Plan, own: Settings) -> Place:
    """Find the nodes' interfaces by their cluster addresses."""
    order = sorted(plan["nodes"].values(), key=lambda node: int(node["node_rank"]))
    held = {
        str(node["name"]): [one for one in seen.interfaces if str(node["address"]) in one.addresses]
        for node in order
    }
    home = own.vpc_id or _home(seen, own, held)
    faults: list[Fault] = []
    members, interfaces = [], {}
    for node in order:
        name, address = str(node["name"]), str(node["address"])
        chosen = _chosen(name, address, held[name], home, faults)
        if chosen:
            members.append(ec2_rules.Member(name, address, chosen))
            interfaces[name] = _used(seen, chosen, node)
    return Place(home, tuple(members), interfaces, tuple(faults))


def _home(seen: Seen, own: Settings, held: Mapping[str, Sequence[Interface]]) -> str:
    """The VPC of the cluster: that of an existing group, else the one that has most nodes (then the lowest rank)."""
    for one in own.groups:
        if one in seen.groups:
            return seen.groups[one].vpc
    counts: Counter[str] = Counter()
    for interfaces in held.values():
        counts.update({one.vpc for one in interfaces})
    if counts:
        return counts.most_common(1)[0][0]
    # no node is left: undo still finds what was made for them
    ours = [group for group in seen.groups.values() if group.tags.get(ec2_rules.TAG) == own.name]
    return ours[0].vpc if ours else ""


def group_filters(
    interfaces: Iterable[Mapping[str, Any]], vpc: str, name: str
) -> dict[str, str | list[str]]:
    """The filter of ``ec2_security_group_info``: the nodes' VPCs, or without nodes the group made for them."""
    vpcs = {ec2_model.interface(one).vpc for one in interfaces} | {vpc}
    vpcs -= {""}
    return {"vpc-id": sorted(vpcs)} if vpcs else {f"tag:{ec2_rules.TAG}": name}


def _chosen(
    name: str, address: str, held: Sequence[Interface], home: str, faults: list[Fault]
) -> Interface | None:
    inside = [one for one in held if one.vpc == home]
    if len(inside) == 1:
        return inside[0]
    if len(inside) > 1:
        text = f"{name}: {', '.join(one.id for one in inside)} all have {address}"
        faults.append(Fault("EC-109", text, "Give each node an address of its own"))
    elif held:
        where = f"{held[0].instance or held[0].id} in {held[0].vpc}"
        text = f"{name} ({address}) is {where}, and the cluster's VPC is {home}"
        step = "A security group ends with its VPC: launch the node there, or set ec2_security_group_vpc_id"
        faults.append(Fault("EC-110", text, step))
    else:
        text = f"{name}: no network interface has the cluster address {address}"
        step = "Compare it with the instance's private address, and AWS_REGION or ec2_security_group_region"
        faults.append(Fault("EC-108", text, step))
    return None


def _used(seen: Seen, chosen: Interface, node: Mapping[str, Any]) -> tuple[Interface, ...]:
    """Interfaces of the instance with any address of the plan, and every EFA interface; the cluster's first."""
    planned = {
        str(address).split("/", maxsplit=1)[0]
        for link in node.get("links")
        or []  # the plan of a diagnosis may know no more than an address
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


def groups_of(seen: Seen, own: Settings, home: str, faults: list[Fault]) -> list[Group]:
    """The groups that every member shall have, the one that gets our rules first; [] when it is still to be made."""
    inside = [group for group in seen.groups.values() if group.vpc == home]
    if own.groups:
        found = [_existing(seen, one, inside, home, faults) for one in own.groups]
        return [group for group in found if group]
    named = [group for group in inside if group.name == own.name]
    if named and named[0].tags.get(ec2_rules.TAG) != own.name:
        text = f"{named[0]} is there already, and Fullmesh did not make it"
        step = (
            "Choose another ec2_security_group_name, or name the group in ec2_security_group_groups"
        )
        faults.append(Fault("EC-107", text, step))
    return named


def _existing(
    seen: Seen, wanted: str, inside: Sequence[Group], home: str, faults: list[Fault]
) -> Group | None:
    if GROUP_ID.match(wanted):
        matching = [group for group in seen.groups.values() if group.id == wanted]
    else:
        tag, _equals, value = wanted.partition("=")
        matching = [group for group in inside if group.tags.get(tag) == value]
    if len(matching) == 1 and matching[0].vpc == home:
        return matching[0]
    if len(matching) == 1:
        text = f"the group {matching[0]} is in {matching[0].vpc}, and the nodes are in {home}"
        faults.append(Fault("EC-110", text, "Name a group of the nodes' VPC"))
    elif matching:
        text = f"{wanted} is the tag of {', '.join(map(str, matching))}"
        faults.append(Fault("EC-106", text, "Name the group by its id"))
    else:
        text = f"there is no security group {wanted} in {home or 'the VPC of the nodes'}"
        faults.append(Fault("EC-105", text, "Compare it with `aws ec2 describe-security-groups`"))
    return None


def todo(raw: Mapping[str, Any], plan: Plan, own: Settings) -> dict[str, Any]:
    """What has to change in the account (docs: roles/ec2_security_group/README.md).

    Args:
        raw: ``interfaces``, ``groups`` and ``acls`` as amazon.aws returned them.
        plan: the cluster plan.
        own: the settings, free of faults.

    Returns:
        ``faults`` (then nothing is to be done), ``create``, ``group``, ``add``, ``remove``, ``attach`` (by node),
        ``missing`` (in words).
    """
    seen = ec2_model.read(raw["interfaces"], raw["groups"], raw["acls"])
    place = locate(seen, plan, own)
    faults = list(place.faults)
    groups = groups_of(seen, own, place.vpc, faults)
    main = groups[0] if groups else None
    # only a new group has no id yet
    ident = main.id if main else ""
    wants = ec2_rules.wanted(ident, own.needs(plan), own.ssh_from, own.name)
    addresses = [member.address for member in place.members]
    # what will be taken out opens nothing
    going = ec2_rules.stale(wants, main, own.name)
    staying = [ec2_rules.without(group, going) if group is main else group for group in groups]
    lacks = ec2_rules.missing(wants, staying, ident, addresses)
    attach = _attach(seen, place, [group.id for group in groups] or [""], own, faults)
    _check_room(main, [rule for rule, _gap in lacks], own, faults)
    return {
        "faults": [str(fault) for fault in sorted(set(faults))],
        "create": main is None,
        "group": _group_argument(main, own, place.vpc),
        "add": _added([rule for rule, _gap in lacks], ident, own.name),
        "remove": [ec2_rules.permission(rule) for rule in going],
        "attach": attach,
        "missing": _missing_words(main, own, lacks, attach),
    }


def _added(rules: Sequence[Rule], ident: str, name: str) -> dict[str, list[dict[str, Any]]]:
    """The rules as ``amazon.aws.ec2_security_group`` takes them, by direction."""
    return {
        direction: [
            ec2_rules.as_argument(rule, ident, name)
            for rule in rules
            if rule.direction == direction
        ]
        for direction in (ec2_model.IN, ec2_model.OUT)
    }


def _missing_words(
    main: Group | None,
    own: Settings,
    lacks: Sequence[tuple[Rule, Sequence[Need]]],
    attach: Mapping[str, Sequence[Mapping[str, Any]]],
) -> list[str]:
    """One line for each thing that will be mended, as a person says it."""
    if main is None:
        return [f"there is no security group {own.name} yet"]
    words = [str(lack_fault(main, rule, gap)) for rule, gap in lacks]
    return words + [str(one["fault"]) for entries in attach.values() for one in entries]


def lack_fault(main: Group, rule: Rule, gap: Sequence[Need]) -> Fault:
    """The sentence for a rule that a group lacks."""
    inward = rule.direction == ec2_model.IN
    whom = f"{'from' if inward else 'to'} {'itself' if rule.target == main.id else rule.target}"
    ports = ", ".join(str(need) for need in gap)
    code = "EC-113" if rule.protocol == ec2_model.ALL else "EC-112"
    why = ""
    if code == "EC-113" and not inward:
        why = "; the default outbound 0.0.0.0/0 does not replace it"
    return Fault(
        code,
        f"security group {main} lacks a rule {whom} for {ports}{why}",
        "ansible-playbook playbooks/ec2.yml adds it",
    )


def _group_argument(main: Group | None, own: Settings, vpc: str) -> dict[str, Any]:
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
        "tags": ec2_rules.tags_of(own.name, own.tags),
    }


def _attach(
    seen: Seen, place: Place, groups: Sequence[str], own: Settings, faults: list[Fault]
) -> dict[str, list[dict[str, Any]]]:
    """Node -> interfaces that lack a group; the empty id stands for the group that is still to be made."""
    result: dict[str, list[dict[str, Any]]] = {}
    limit = int(str(own.interface_limit)) if str(own.interface_limit).isdigit() else 0
    for node, interfaces in place.interfaces.items():
        for one in interfaces:
            absent = [group for group in groups if group not in one.groups]
            if not absent:
                continue
            if len(one.groups) + len(absent) > limit:
                text = f"{node}: {one.id} has {len(one.groups)} of {limit} groups ({seen.named(one.groups)})"
                step = (
                    "Take a group away, or raise the quota and ec2_security_group_interface_limit"
                )
                faults.append(Fault("EC-116", text, step))
            result.setdefault(node, []).append(
                {
                    "eni": one.id,
                    "groups": [*one.groups, *absent],
                    "tags": _attached_tag(one, absent, own),
                    "fault": str(bare_fault(seen, node, one, absent, own)),
                }
            )
    return result


def bare_fault(
    seen: Seen, node: str, one: Interface, absent: Sequence[str], own: Settings
) -> Fault:
    """The sentence for an interface without a group."""
    names = ", ".join(str(seen.groups.get(group, own.name)) for group in absent)
    return Fault(
        "EC-111",
        f"{node}: interface {one.id} is not in security group {names}; it has {seen.named(one.groups)}",
        "ansible-playbook playbooks/ec2.yml adds it",
    )


def tag_key(name: str) -> str:
    """The tag of an interface that remembers which groups we put there."""
    return f"{ec2_rules.TAG}/{name}"


def _attached_tag(one: Interface, absent: Sequence[str], own: Settings) -> dict[str, str]:
    """Undo takes off only what we put on. A group of our own making needs no note."""
    if not own.groups:
        return {}
    before = one.tags.get(tag_key(own.name), "").split()
    return {tag_key(own.name): " ".join(dict.fromkeys([*before, *absent]))}


def _check_room(
    main: Group | None, more: Sequence[Rule], own: Settings, faults: list[Fault]
) -> None:
    """IPv4 and IPv6 networks have a quota each in each direction; a rule that names a group counts for both."""
    limit = int(str(own.rule_limit)) if str(own.rule_limit).isdigit() else 0
    for direction in (ec2_model.IN, ec2_model.OUT):
        rules = [
            rule for rule in [*(main.rules if main else ()), *more] if rule.direction == direction
        ]
        for other in (".", ":"):  # what only the other family has in a network
            count = sum(1 for rule in rules if other not in rule.target)
            if more and count > limit:
                text = f"security group {main or own.name} would have {count} of {limit} rules ({direction})"
                step = "Clear rules that nobody needs, or raise the quota and ec2_security_group_rule_limit"
                faults.append(Fault("EC-117", text, step))


def undo(raw: Mapping[str, Any], plan: Plan, own: Settings) -> dict[str, Any]:
    """What gives the account back as it was: our group, or our rules and our attachments.

    Args:
        raw: as for :func:`todo`; ``interfaces`` holds every interface of the VPC that has one of the groups as well.
        plan: the cluster plan.
        own: the settings with which it was made.

    Returns:
        ``faults``, ``detach`` (interfaces with the groups that stay), ``remove`` (rules), ``delete`` (group id or "").
    """
    seen = ec2_model.read(raw["interfaces"], raw["groups"], raw["acls"])
    place = locate(seen, plan, own)
    # a node that is gone needs no undo
    faults: list[Fault] = []
    groups = [] if not place.vpc else groups_of(seen, own, place.vpc, faults)
    faults = [fault for fault in faults if fault.code not in ("EC-105", "EC-107")]
    ours = [group for group in groups if group.tags.get(ec2_rules.TAG) == own.name]
    mine = {one.id for interfaces in place.interfaces.values() for one in interfaces}
    detach = []
    for one in seen.interfaces:
        if one.id in mine:
            off = _to_take_off(one, groups, ours, own)
            if off:
                detach.append(_detached(one, off, own, faults))
    delete = ours[0] if ours and not own.groups else None
    if delete:
        _check_unused(seen, delete, mine, faults)
    rules = [] if delete or not groups else ec2_rules.stale([], groups[0], own.name)
    return {
        "faults": [str(fault) for fault in sorted(set(faults))],
        "detach": detach,
        "group": groups[0].id if rules else "",
        "remove": [ec2_rules.permission(rule) for rule in rules],
        "delete": delete.id if delete else "",
    }


def _to_take_off(
    one: Interface, groups: Sequence[Group], ours: Sequence[Group], own: Settings
) -> list[str]:
    noted = one.tags.get(tag_key(own.name), "").split()
    made = [] if own.groups else [group.id for group in ours]
    return [
        group.id
        for group in groups
        if group.id in one.groups and (group.id in noted or group.id in made)
    ]


def _detached(
    one: Interface, off: Sequence[str], own: Settings, faults: list[Fault]
) -> dict[str, Any]:
    stay = [group for group in one.groups if group not in off]
    if not stay:
        text = f"{one.id} of {one.instance} has no other group than {', '.join(off)}"
        step = "EC2 demands one: attach the group that shall stay, and run undo again"
        faults.append(Fault("EC-123", text, step))
    key = tag_key(own.name)
    return {"eni": one.id, "groups": stay, "tag": key if key in one.tags else ""}


def _check_unused(seen: Seen, group: Group, mine: set[str], faults: list[Fault]) -> None:
    others = [one.id for one in seen.interfaces if group.id in one.groups and one.id not in mine]
    users = [
        str(other)
        for other in seen.groups.values()
        if other.id != group.id and any(rule.target == group.id for rule in other.rules)
    ]
    if others or users:
        text = f"security group {group} is also used by {', '.join(sorted(others) + sorted(users))}"
        step = "Take it off there (it may be a node that left the inventory), and run undo again"
        faults.append(Fault("EC-124", text, step))
