"""EC2: settings, ports, rules wanted and seen, ACLs, and what has to be done; no AWS, no mock."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullmesh.ec2 import acl as ec2_acl
from fullmesh.ec2 import findings as ec2_findings
from fullmesh.ec2 import model as ec2_model
from fullmesh.ec2 import place as ec2_place
from fullmesh.ec2 import rules as ec2_rules
from fullmesh.ec2 import security_group
from fullmesh.ec2.model import Acl, AclEntry, Need
from fullmesh.ec2.settings import SecurityGroupSettings, find_group_settings_faults
from fullmesh.model.plan import derive_plan

VPC, SG = "vpc-0a0a0a0a", "sg-0123456789abcdef0"
OTHER = "sg-0fedcba9876543210"


def plan(*addresses: str, **more: Any) -> dict[str, Any]:
    """The plan of nodes n0, n1 … with these addresses."""
    own = addresses or ("10.0.1.1/24", "10.0.1.2/24")
    hosts = {f"n{at}": {"fullmesh_address": one, **more} for at, one in enumerate(own)}
    return derive_plan(hosts)


def eni(at: int, address: str, groups: tuple[str, ...] = (SG,), **more: Any) -> dict[str, Any]:
    """An interface as ec2_eni_info returns it."""
    return {
        "network_interface_id": f"eni-{at}",
        "attachment": {"instance_id": f"i-{at}"},
        "vpc_id": VPC,
        "subnet_id": "subnet-a",
        "availability_zone": "us-east-1a",
        "interface_type": "interface",
        "groups": [{"group_id": one} for one in groups],
        "private_ip_address": address,
        "private_ip_addresses": [{"private_ip_address": address}],
        "ipv6_addresses": [],
        "tags": {},
        **more,
    }


def permission(protocol: str, first: int | None, last: int | None, *targets: str) -> dict[str, Any]:
    """A rule as ec2_security_group_info returns it."""
    own = [one for one in targets if one.startswith("sg-")]
    v6 = [one for one in targets if ":" in one]
    v4 = [one for one in targets if one not in own and one not in v6]
    ports = {} if first is None else {"from_port": first, "to_port": last}
    return {
        "ip_protocol": protocol,
        **ports,
        "user_id_group_pairs": [{"group_id": one, "description": ""} for one in own],
        "ip_ranges": [{"cidr_ip": one} for one in v4],
        "ipv6_ranges": [{"cidr_ipv6": one} for one in v6],
        "prefix_list_ids": [],
    }


ALL_OUT = permission("-1", None, None, "0.0.0.0/0")
CLUSTER = [permission("tcp", 29400, 29500, SG), permission("tcp", 50000, 54095, SG)]


def group(
    rules: list[dict[str, Any]],
    out: list[dict[str, Any]] | None = None,
    ident: str = SG,
    **more: Any,
) -> dict[str, Any]:
    """A group as ec2_security_group_info returns it."""
    return {
        "group_id": ident,
        "group_name": "fullmesh" if ident == SG else "others",
        "vpc_id": VPC,
        "description": "d",
        "tags": {"fullmesh-cluster": "fullmesh"} if ident == SG else {},
        "ip_permissions": rules,
        "ip_permissions_egress": [ALL_OUT] if out is None else out,
        **more,
    }


def acl(subnet: str, ingress: list[list[Any]], egress: list[list[Any]] | None = None) -> Any:
    """An ACL as ec2_vpc_nacl_info returns it."""
    end = [32767, "all", "deny", "0.0.0.0/0", None, None, 0, 65535]
    allow = [100, "all", "allow", "0.0.0.0/0", None, None, 0, 65535]
    return {
        "nacl_id": f"acl-{subnet}",
        "subnets": [subnet],
        "ingress": [*ingress, end],
        "egress": [*([allow] if egress is None else egress), end],
    }


def raw(
    interfaces: list[Any] | None = None,
    groups: list[Any] | None = None,
    acls: list[Any] | None = None,
) -> dict[str, Any]:
    """What was read; two whole nodes by default."""
    return {
        "interfaces": interfaces or [eni(0, "10.0.1.1"), eni(1, "10.0.1.2")],
        "groups": [group(CLUSTER)] if groups is None else groups,
        "acls": acls or [],
    }


def codes(seen: dict[str, Any], own: dict[str, Any], **settings: Any) -> list[str]:
    """The codes of the findings."""
    return [
        one.code
        for one in ec2_findings.check_ec2(seen, own, SecurityGroupSettings.of(settings, own))
    ]


def refused(seen: dict[str, Any], own: dict[str, Any], **settings: Any) -> str:
    """The faults for which the role does nothing."""
    return "\n".join(
        security_group.find_group_changes(seen, own, SecurityGroupSettings.of(settings, own))[
            "faults"
        ]
    )


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"mode": "all"}, "EC-101"),
        ({"ssh_from": ["office"]}, "EC-102"),
        ({"ssh_from": ["0.0.0.0/0"]}, "EC-102"),
        ({"ssh_from": ["::/0"]}, "EC-102"),
        ({"extra_ports": ["22"]}, "EC-103"),
        ({"extra_ports": ["9-8/tcp"]}, "EC-103"),
        ({"extra_ports": ["70000/udp"]}, "EC-103"),
        ({"groups": ["my-group"]}, "EC-104"),
        ({"groups": ["=x"]}, "EC-104"),
        ({"name": "sg-1"}, "EC-120"),
        ({"name": ""}, "EC-120"),
        ({"name": "ü"}, "EC-120"),
        ({"vpc_id": "10.0.0.0/16"}, "EC-120"),
        ({"rule_limit": 0}, "EC-120"),
        ({"interface_limit": "many"}, "EC-120"),
    ],
)
def test_settings_are_refused(settings: dict[str, Any], code: str) -> None:
    assert [
        one.code for one in find_group_settings_faults(SecurityGroupSettings.of(settings, plan()))
    ] == [code]


def test_good_settings_pass() -> None:
    own = plan(fullmesh_controllers=["198.51.100.9"])
    settings = SecurityGroupSettings.of(
        {
            "mode": "efa",
            "ssh_from": ["203.0.113.0/24", "2001:db8::1"],
            "groups": [SG, "Name=a b"],
            "extra_ports": ["22/tcp", "6000-6010/udp"],
        },
        own,
    )
    assert find_group_settings_faults(settings) == []
    # the plan's controllers may log in as well
    assert settings.ssh_from == ("198.51.100.9/32", "203.0.113.0/24", "2001:db8::1/128")


def test_a_whole_cluster_has_no_finding_and_nothing_to_do() -> None:
    assert codes(raw(), plan()) == []
    todo = security_group.find_group_changes(raw(), plan(), SecurityGroupSettings())
    assert (todo["faults"], todo["missing"], todo["attach"]) == ([], [], {})
    assert todo["add"] == {"in": [], "out": []}
    assert not todo["create"]


def test_the_missing_part_of_a_range_is_named() -> None:
    rules = [CLUSTER[0], permission("tcp", 50000, 50999, SG), permission("tcp", 52000, 54095, SG)]
    found = ec2_findings.check_ec2(raw(groups=[group(rules)]), plan(), SecurityGroupSettings())
    assert [ec2_findings.format_ec2_finding(one) for one in found] == [
        f"[EC-112] security group {SG} (fullmesh) lacks a rule from itself for 51000-51999/tcp."
        f" aws ec2 authorize-security-group-ingress --group-id {SG} --ip-permissions"
        f" 'IpProtocol=tcp,FromPort=51000,ToPort=51999,UserIdGroupPairs=[{{GroupId={SG}}}]'."
    ]
    add = security_group.find_group_changes(
        raw(groups=[group(rules)]), plan(), SecurityGroupSettings()
    )["add"]["in"]
    assert [(one["from_port"], one["to_port"], one["group_id"]) for one in add] == [
        (50000, 54095, SG)
    ]


@pytest.mark.parametrize(
    "rules",
    [
        [permission("-1", None, None, SG)],
        [permission("tcp", 0, 65535, "10.0.0.0/8")],
        [permission("tcp", 29000, 55000, "10.0.1.0/31", "10.0.1.2/32", "10.0.1.0/24")],
    ],
)
def test_whatever_opens_the_ports_is_enough(rules: list[Any]) -> None:
    assert codes(raw(groups=[group(rules)]), plan()) == []


@pytest.mark.parametrize(
    "rules",
    [
        [permission("udp", 0, 65535, SG)],
        [permission("tcp", 0, 65535, "10.0.1.1/32")],  # one of the two members
        [permission("tcp", 0, 65535, OTHER)],
        [permission("tcp", 0, 65535, "2001:db8::/32")],
    ],
)
def test_what_does_not_open_them_is_not_taken_for_it(rules: list[Any]) -> None:
    assert set(codes(raw(groups=[group(rules)]), plan())) == {"EC-112"}


def test_a_group_without_a_way_out_is_named() -> None:
    found = ec2_findings.check_ec2(
        raw(groups=[group(CLUSTER, out=[])]), plan(), SecurityGroupSettings()
    )
    assert {one.direction for one in found} == {"out"}
    assert "lacks a rule to itself for 50000-54095/tcp" in "\n".join(one.cause for one in found)


def test_efa_wants_both_directions_by_id() -> None:
    whole = permission("-1", None, None, SG)
    assert codes(raw(groups=[group([whole], [whole])]), plan(), mode="efa") == ["EC-125"] * 2
    inward_only = ec2_findings.check_ec2(
        raw(groups=[group([whole])]), plan(), SecurityGroupSettings(mode="efa")
    )
    lacking = [one for one in inward_only if one.code == "EC-113"]
    assert [one.direction for one in lacking] == ["out"]
    assert "the default outbound 0.0.0.0/0 does not replace it" in lacking[0].cause
    wide = permission("-1", None, None, "10.0.0.0/8")
    by_network = ec2_findings.check_ec2(
        raw(groups=[group([wide], [wide])]), plan(), SecurityGroupSettings(mode="efa")
    )
    assert [one.direction for one in by_network if one.code == "EC-113"] == ["in", "out"]


def test_a_second_group_on_every_interface_counts() -> None:
    """Groups add up; for EFA the group that names itself may be any of them."""
    both = (SG, OTHER)
    nodes = [eni(0, "10.0.1.1", both), eni(1, "10.0.1.2", both)]
    whole = permission("-1", None, None, OTHER)
    groups = [group([]), group([whole], [whole], ident=OTHER)]
    assert codes(raw(nodes, groups), plan(), groups=[SG, OTHER]) == []
    efa = security_group.find_group_changes(
        raw(nodes, groups), plan(), SecurityGroupSettings(mode="efa", groups=(SG, OTHER))
    )
    assert efa["missing"] == []
    # a rule of the one that names the other is no rule from and to itself
    crossed = [group([whole], [whole]), group([], [], ident=OTHER)]
    assert "EC-113" in codes(raw(nodes, crossed), plan(), groups=[SG, OTHER], mode="efa")


def test_mode_ports_on_efa_instances_is_a_warning() -> None:
    nodes = [eni(at, f"10.0.1.{at + 1}", interface_type="efa") for at in (0, 1)]
    found = ec2_findings.check_ec2(raw(nodes), plan(), SecurityGroupSettings())
    assert {(one.code, one.severity) for one in found} == {("EC-113", "warning")}


def test_every_efa_interface_gets_the_group() -> None:
    more = eni(9, "", (OTHER,), interface_type="efa-only", private_ip_addresses=[])
    more["attachment"] = {"instance_id": "i-1"}
    nodes = [eni(0, "10.0.1.1"), eni(1, "10.0.1.2"), more]
    groups = [group(CLUSTER), group([], ident=OTHER)]
    attach = security_group.find_group_changes(raw(nodes, groups), plan(), SecurityGroupSettings())[
        "attach"
    ]
    assert {node: [one["eni"] for one in own] for node, own in attach.items()} == {"n1": ["eni-9"]}
    assert attach["n1"][0]["groups"] == [OTHER, SG]
    # an interface of the same instance with neither is not the cluster's
    more["interface_type"] = "interface"
    assert (
        security_group.find_group_changes(raw(nodes, groups), plan(), SecurityGroupSettings())[
            "attach"
        ]
        == {}
    )


def test_efa_in_two_zones() -> None:
    nodes = [
        eni(0, "10.0.1.1", interface_type="efa"),
        eni(1, "10.0.1.2", interface_type="efa", availability_zone="us-east-1b"),
    ]
    whole = permission("-1", None, None, SG)
    assert codes(raw(nodes, [group([whole], [whole])]), plan(), mode="efa") == ["EC-119"]


def test_nodes_that_cannot_be_found_are_all_named() -> None:
    nodes = [
        eni(0, "10.0.1.1"),
        eni(1, "10.0.1.2", vpc_id="vpc-other"),
        eni(3, "10.0.1.4"),
        eni(4, "10.0.1.4"),
    ]
    own = plan(*(f"10.0.1.{at}/24" for at in (1, 2, 3, 4)))
    text = refused(raw(nodes), own, vpc_id=VPC)
    assert (
        "[EC-110] n1 (10.0.1.2) is i-1 in vpc-other, but the cluster's VPC is vpc-0a0a0a0a" in text
    )
    assert "[EC-108] n2: no network interface has the cluster address 10.0.1.3" in text
    assert "[EC-109] n3: eni-3, eni-4 all have 10.0.1.4" in text


def test_the_same_address_in_another_vpc_is_not_the_node() -> None:
    nodes = [eni(0, "10.0.1.1"), eni(1, "10.0.1.2"), eni(7, "10.0.1.2", vpc_id="vpc-other")]
    assert refused(raw(nodes), plan()) == ""


@pytest.mark.parametrize(
    ("groups", "code"),
    [
        (["sg-00000000000000000"], "EC-105"),
        (["Name=nothing"], "EC-105"),
        (["Team=ml"], "EC-106"),
        (["sg-0aaaaaaaaaaaaaaaa"], "EC-110"),
    ],
)
def test_groups_that_cannot_be_used(groups: list[str], code: str) -> None:
    tagged = {"Team": "ml"}
    there = [
        group(CLUSTER, tags=tagged),
        group([], ident=OTHER, tags=tagged),
        group([], ident="sg-0aaaaaaaaaaaaaaaa", vpc_id="vpc-other"),
    ]
    assert code in refused(raw(groups=there), plan(), groups=groups, vpc_id=VPC)


def test_a_name_that_is_taken() -> None:
    assert "EC-107" in refused(raw(groups=[group(CLUSTER, tags={})]), plan())


def test_full_interfaces_and_groups() -> None:
    five = tuple(f"sg-0000000{at}" for at in range(5))
    nodes = [eni(0, "10.0.1.1", five), eni(1, "10.0.1.2")]
    assert "[EC-116] n0: eni-0 has 5 of 5 groups" in refused(raw(nodes), plan())
    assert refused(raw(nodes), plan(), interface_limit=6) == ""
    many = [permission("tcp", 22, 22, *(f"192.0.2.{at}/32" for at in range(59)))]
    assert "[EC-117]" in refused(raw(groups=[group(many)]), plan())
    # IPv6 networks have a quota of their own
    six = [permission("tcp", 22, 22, *(f"2001:db8::{at}/128" for at in range(1, 58)))]
    both = [*many, *six]
    assert refused(raw(groups=[group(both)]), plan(), rule_limit=62) == ""


def test_rules_of_ours_that_are_wanted_no_longer_go_and_no_others() -> None:
    mine = permission("-1", None, None, SG)
    mine["user_id_group_pairs"][0]["description"] = "Fullmesh fullmesh: all traffic"
    theirs = permission("tcp", 8888, 8888, SG, "192.0.2.1/32")
    theirs["ip_ranges"][0]["description"] = "Fullmesh other: ssh"
    todo = security_group.find_group_changes(
        raw(groups=[group([*CLUSTER, mine, theirs])]), plan(), SecurityGroupSettings()
    )
    assert [(one["protocol"], one["target"]) for one in todo["remove"]] == [("-1", SG)]


def test_a_rule_that_goes_is_not_counted_as_an_opening() -> None:
    """From efa to ports: the rule for all traffic covers the ports, and is about to be taken out."""
    mine = permission("-1", None, None, SG)
    mine["user_id_group_pairs"][0]["description"] = "Fullmesh fullmesh: all traffic"
    todo = security_group.find_group_changes(
        raw(groups=[group([mine])]), plan(), SecurityGroupSettings()
    )
    assert len(todo["remove"]) == 1
    assert [one["from_port"] for one in todo["add"]["in"]] == [29400, 29500, 50000]


def test_without_a_group_of_ours_the_nodes_own_groups_are_judged() -> None:
    theirs = group([permission("tcp", 29500, 29500, OTHER)], ident=OTHER)
    nodes = [eni(0, "10.0.1.1", (OTHER,)), eni(1, "10.0.1.2", (OTHER,))]
    found = ec2_findings.check_ec2(raw(nodes, [theirs]), plan(), SecurityGroupSettings())
    assert [one.code for one in found] == ["EC-112"]
    lacks = "lacks a rule from itself for 29400/tcp, 50000-54095/tcp"
    assert f"security group {OTHER} (others) {lacks}" in found[0].cause
    whole = group([permission("-1", None, None, OTHER)], ident=OTHER)
    assert codes(raw(nodes, [whole]), plan()) == []


def test_a_node_apart_from_the_others_is_the_one_that_is_named() -> None:
    first, second = group([permission("-1", None, None, OTHER)], ident=OTHER), "sg-0bbbbbbbb"
    nodes = [eni(at, f"10.0.1.{at + 1}", (OTHER,)) for at in (0, 1)]
    nodes.append(eni(2, "10.0.1.3", (second,)))
    own = plan(*(f"10.0.1.{at}/24" for at in (1, 2, 3)))
    lone = group([], ident=second)
    found = ec2_findings.check_ec2(raw(nodes, [first, lone]), own, SecurityGroupSettings())
    assert [(one.code, one.node, one.peer) for one in found] == [("EC-111", "n2", "n0, n1")]


def test_ssh() -> None:
    todo = security_group.find_group_changes(
        raw(groups=[]),
        plan(),
        SecurityGroupSettings.of({"ssh_from": ["203.0.113.7", "2001:db8::/48"]}, plan()),
    )
    ssh = [one for one in todo["add"]["in"] if one.get("from_port") == 22]
    assert [(one.get("cidr_ip"), one.get("cidr_ipv6")) for one in ssh] == [
        ("203.0.113.7/32", None),
        (None, "2001:db8::/48"),
    ]
    everybody = [*CLUSTER, permission("tcp", 0, 1024, "0.0.0.0/0")]
    found = ec2_findings.check_ec2(raw(groups=[group(everybody)]), plan(), SecurityGroupSettings())
    assert [(one.code, one.severity) for one in found] == [("EC-118", "warning")]


def two_subnets(*acls: Any) -> dict[str, Any]:
    """A node in each of two subnets."""
    nodes = [eni(0, "10.0.1.1"), eni(1, "10.0.1.2", subnet_id="subnet-b")]
    return raw(nodes, acls=list(acls))


OPEN = [100, "all", "allow", "0.0.0.0/0", None, None, 0, 65535]


def test_an_acl_that_denies_is_named_with_its_rule() -> None:
    deny = [50, "tcp", "deny", "10.0.1.0/24", None, None, 50000, 50999]
    seen = two_subnets(acl("subnet-a", [OPEN]), acl("subnet-b", [deny, OPEN]))
    found = ec2_findings.check_ec2(seen, plan(), SecurityGroupSettings())
    assert [ec2_findings.format_ec2_finding(one) for one in found] == [
        "[EC-114] network ACL acl-subnet-b of subnet-b blocks inbound traffic from n0 at 50000-50999/tcp:"
        " its rule 50 denies them. Allow 50000-50999/tcp inbound in acl-subnet-b, below rule 50."
    ]


def test_an_acl_that_allows_too_little() -> None:
    some = [100, "tcp", "allow", "10.0.0.0/8", None, None, 29400, 29500]
    seen = two_subnets(acl("subnet-a", [OPEN], [some]), acl("subnet-b", [OPEN]))
    found = ec2_findings.check_ec2(seen, plan(), SecurityGroupSettings())
    assert [(one.code, one.direction, one.port) for one in found] == [
        ("EC-114", "out", "50000-54095/tcp")
    ]
    assert "none of its rules allows them" in found[0].cause


def served(*entries: Any) -> dict[str, Any]:
    """The plan of two nodes with services, and a controller of another network."""
    more = {"fullmesh_services": list(entries), "fullmesh_controllers": ["198.51.100.9"]}
    return plan("10.0.1.1/24", "10.0.1.2/24", **more)


def test_an_acl_that_shuts_a_services_port_is_named_with_the_service() -> None:
    """Ray's control store lives on n0 alone, its workers' range on both."""
    deny = [50, "tcp", "deny", "10.0.1.0/24", None, None, 6379, 6379]
    own = served("ray")
    settings = SecurityGroupSettings.of({}, own)
    groups = [group([*CLUSTER, permission("tcp", 0, 65535, SG, "198.51.100.9/32")])]

    def found(where: str) -> list[str]:
        rules = {name: [OPEN] for name in ("subnet-a", "subnet-b")} | {where: [deny, OPEN]}
        seen = two_subnets(*(acl(name, lines) for name, lines in rules.items()))
        seen["groups"] = groups
        return [
            ec2_findings.format_ec2_finding(one)
            for one in ec2_findings.check_ec2(seen, own, settings)
        ]

    assert found("subnet-a") == [
        "[EC-114] network ACL acl-subnet-a of subnet-a blocks inbound traffic from n1 at 6379/tcp (ray gcs):"
        " its rule 50 denies them. Allow 6379/tcp inbound in acl-subnet-a, below rule 50."
    ]
    assert found("subnet-b") == []


@pytest.mark.parametrize(
    ("reach", "source", "other"),
    [
        ("controllers", "198.51.100.9/32", "0.0.0.0/0"),
        ("everybody", "0.0.0.0/0", "198.51.100.9/32"),
    ],
)
def test_an_acl_must_let_in_whoever_may_come_to_a_service_and_the_answers_out(
    reach: str, source: str, other: str
) -> None:
    own = served({"name": "panel", "ports": {"web": 8443}, "reach": reach, "nodes": ["n1"]})
    inside = [100, "all", "allow", "10.0.0.0/8", None, None, 0, 65535]
    ssh = [90, "tcp", "allow", "198.51.100.9/32", None, None, 22, 22]
    back = [95, "tcp", "allow", "198.51.100.9/32", None, None, 1024, 65535]
    # all that ssh needs is there: what is missing is the service's
    shut = two_subnets(
        acl("subnet-a", [ssh, inside]), acl("subnet-b", [ssh, inside], [back, inside])
    )
    shut["groups"] = [
        group([*CLUSTER, permission("tcp", 0, 65535, SG, "198.51.100.9/32", "0.0.0.0/0", "::/0")])
    ]
    found = [
        one
        for one in ec2_findings.check_ec2(shut, own, SecurityGroupSettings.of({}, own))
        if one.code.startswith("EC-11") and "network ACL" in one.cause
    ]
    causes = [one.cause for one in found]
    assert (
        f"network ACL acl-subnet-b of subnet-b blocks inbound traffic from {source} at 8443/tcp (panel web):"
        " none of its rules allows them" in causes
    )
    assert not any("acl-subnet-a" in cause or other in cause for cause in causes)
    answers = [one for one in found if one.code == "EC-115"]
    assert [one.peer for one in answers] == ([source] if reach == "everybody" else [])


def test_an_acl_does_not_matter_inside_one_subnet() -> None:
    nodes = [eni(0, "10.0.1.1"), eni(1, "10.0.1.2")]
    assert codes(raw(nodes, acls=[acl("subnet-a", [], [])]), plan()) == []


def test_answers_need_an_opening_of_their_own() -> None:
    """The requests pass, and the answers to a client outside the pinned range do not."""
    pinned = [
        [100, "tcp", "allow", "10.0.0.0/8", None, None, 29400, 29500],
        [110, "tcp", "allow", "10.0.0.0/8", None, None, 50000, 54095],
    ]
    seen = two_subnets(acl("subnet-a", pinned, pinned), acl("subnet-b", pinned, pinned))
    assert ec2_findings.check_ec2(seen, plan(), SecurityGroupSettings()) == []
    found = ec2_findings.check_ec2(seen, plan(), SecurityGroupSettings(), [(32768, 60999)])
    assert {one.code for one in found} == {"EC-115"}
    assert "32768-49999/tcp, 54096-60999/tcp" in found[0].cause
    own = SecurityGroupSettings.of({"ssh_from": ["203.0.113.7"]}, plan())
    inward = [[90, "tcp", "allow", "203.0.113.0/24", None, None, 22, 22], *pinned]
    rules = [*CLUSTER, permission("tcp", 22, 22, "203.0.113.7/32")]
    seen = two_subnets(acl("subnet-a", inward, pinned), acl("subnet-b", inward, [OPEN]))
    seen["groups"] = [group(rules)]
    found = ec2_findings.check_ec2(seen, plan(), own)
    assert [(one.code, one.direction, one.port) for one in found] == [
        ("EC-115", "out", "1024-65535/tcp")
    ]


def test_ipv6() -> None:
    own = plan("2001:db8:1::1/64", "2001:db8:1::2/64")
    nodes = [
        eni(at, f"10.0.1.{at + 1}", ipv6_addresses=[{"ipv6_address": f"2001:db8:1::{at + 1}"}])
        for at in (0, 1)
    ]
    # the default way out of an IPv4 VPC is IPv4 only
    assert codes(raw(nodes), own) == ["EC-112"] * 3
    out = [ALL_OUT, permission("-1", None, None, "::/0")]
    assert codes(raw(nodes, [group(CLUSTER, out)]), own) == []
    assert ec2_place.build_address_filters(own) == [
        {"ipv6-addresses.ipv6-address": ["2001:db8:1::1", "2001:db8:1::2"]}
    ]
    four_only = [permission("tcp", 0, 65535, "0.0.0.0/0")]
    assert "EC-112" in codes(raw(nodes, [group(four_only)]), own)
    nodes[1]["subnet_id"] = "subnet-b"
    shut = acl("subnet-b", [OPEN], [OPEN])  # IPv4 only
    assert codes(raw(nodes, [group(CLUSTER, out)], [shut]), own) == ["EC-114", "EC-114"]


def test_filters_are_cut_where_aws_takes_no_more_values() -> None:
    own = plan(*(f"10.0.{at // 200}.{at % 200 + 1}/16" for at in range(250)))
    assert [len(next(iter(one.values()))) for one in ec2_place.build_address_filters(own)] == [
        100,
        100,
        50,
    ]


def test_undo_takes_back_what_is_ours() -> None:
    both = (OTHER, SG)
    nodes = [eni(0, "10.0.1.1", both), eni(1, "10.0.1.2", both)]
    undo = security_group.find_undo_changes(raw(nodes), plan(), SecurityGroupSettings())
    assert undo["delete"] == SG
    assert [one["groups"] for one in undo["detach"]] == [[OTHER], [OTHER]]
    assert undo["faults"] == []


def test_undo_leaves_a_group_of_others_where_it_was() -> None:
    """n0 had the group before; n1 got it from us."""
    tag = {"fullmesh-cluster/fullmesh": OTHER}
    nodes = [eni(0, "10.0.1.1", (OTHER,)), eni(1, "10.0.1.2", ("sg-0ccccccc", OTHER), tags=tag)]
    rules = permission("tcp", 29500, 29500, OTHER)
    rules["user_id_group_pairs"][0]["description"] = "Fullmesh fullmesh: between members"
    theirs = group([rules, permission("tcp", 1, 2, OTHER)], ident=OTHER)
    undo = security_group.find_undo_changes(
        raw(nodes, [theirs]), plan(), SecurityGroupSettings(groups=(OTHER,))
    )
    assert (undo["delete"], undo["group"]) == ("", OTHER)
    assert [(one["eni"], one["groups"]) for one in undo["detach"]] == [("eni-1", ["sg-0ccccccc"])]
    assert [(one["first"], one["last"]) for one in undo["remove"]] == [(29500, 29500)]


def test_undo_refuses_to_cut_others_off() -> None:
    nodes = [eni(0, "10.0.1.1"), eni(1, "10.0.1.2", (SG, OTHER)), eni(7, "10.0.1.99", (SG, OTHER))]
    user = group([permission("tcp", 1, 2, SG)], ident=OTHER)
    text = "\n".join(
        security_group.find_undo_changes(
            raw(nodes, [group(CLUSTER), user]), plan(), SecurityGroupSettings()
        )["faults"]
    )
    assert "[EC-123] eni-0 of i-0 has no other group" in text
    assert (
        f"[EC-124] security group {SG} (fullmesh) is also used by eni-7, {OTHER} (others)" in text
    )


def test_undo_without_any_node_left_finds_its_group() -> None:
    seen = {"interfaces": [], "groups": [group(CLUSTER)], "acls": []}
    assert security_group.find_undo_changes(seen, plan(), SecurityGroupSettings())["delete"] == SG
    assert ec2_place.build_group_filters([], "", "fullmesh") == {"tag:fullmesh-cluster": "fullmesh"}


def test_no_answer_names_the_cause_and_shows_no_secret() -> None:
    key, secret = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY00"
    told = {"msg": f"AuthFailure: {key} {secret} was not valid"}
    text = str(
        security_group.make_aws_fault(
            {"results": [{"failed": False, "msg": "x"}, {**told, "failed": True}]}
        )
    )
    assert text.startswith("[EC-122] AWS rejected the query: AuthFailure")
    assert key not in text
    assert secret not in text
    missing = {"msg": "Failed to import the required Python library (botocore and boto3)"}
    assert security_group.make_aws_fault(missing).code == "EC-121"


SPANS = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 99)).map(lambda pair: (min(pair), max(pair))),
    max_size=6,
)


@given(SPANS, SPANS)
def test_subtract_leaves_exactly_what_no_hole_covers(spans: Any, holes: Any) -> None:
    def ports(some: Any) -> set[int]:
        return {port for low, high in some for port in range(low, high + 1)}

    left = ec2_model.subtract_spans(spans, holes)
    assert ports(left) == ports(spans) - ports(holes)


ENTRIES = st.lists(
    st.tuples(
        st.integers(1, 9),
        st.booleans(),
        st.integers(0, 19),
        st.integers(0, 19),
        st.sampled_from(["10.0.0.0/8", "10.0.1.0/24", "192.0.2.0/24", "0.0.0.0/0"]),
        st.sampled_from(["tcp", "udp", "-1"]),
    ),
    max_size=8,
    unique_by=lambda entry: entry[0],
)


@given(ENTRIES)
def test_an_acl_is_judged_as_aws_does_port_by_port(lines: Any) -> None:
    """The lowest number that matches decides, and nothing matching means deny."""
    entries = tuple(
        sorted(
            AclEntry(number, "in", protocol, allow, network, min(a, b), max(a, b))
            for number, allow, a, b, network, protocol in lines
        )
    )
    said = ec2_acl.find_denied_ports(
        Acl("acl", ("s",), entries), "in", "10.0.1.5", Need("tcp", 0, 19)
    )
    shut = {port for need, _number in said for port in range(need.first, need.last + 1)}
    for port in range(20):
        first = next(
            (
                entry
                for entry in entries
                if entry.protocol in ("tcp", "-1")
                and entry.first <= port <= entry.last
                and ipaddress.ip_address("10.0.1.5") in ipaddress.ip_network(entry.network)
            ),
            None,
        )
        assert (port in shut) == (first is None or not first.allow)


def test_neighbouring_ports_become_one_rule() -> None:
    needs = ec2_rules.list_member_needs(
        "ports", ["29400/tcp", "29401-29410/tcp", "123/udp"], ["29405/tcp"]
    )
    assert [str(one) for one in needs] == ["29400-29410/tcp", "123/udp"]
