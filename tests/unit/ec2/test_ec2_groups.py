"""EC2: security groups."""

from __future__ import annotations

from typing import Any

import pytest
from ec2_account import CLUSTER, OTHER, SG, VPC, codes, eni, group, permission, plan, raw

from fullmesh.ec2 import findings as ec2_findings
from fullmesh.ec2 import security_group
from fullmesh.ec2.settings import SecurityGroupSettings
from fullmesh.result.findings import format_finding


def refused(seen: dict[str, Any], own: dict[str, Any], **settings: Any) -> str:
    """The faults for which the role does nothing."""
    return "\n".join(
        security_group.find_group_changes(seen, own, SecurityGroupSettings.of(settings, own))[
            "faults"
        ]
    )


def test_a_complete_cluster_has_no_finding_and_no_change() -> None:
    assert codes(raw(), plan()) == []
    todo = security_group.find_group_changes(raw(), plan(), SecurityGroupSettings())
    assert (todo["faults"], todo["missing"], todo["attach"]) == ([], [], {})
    assert todo["add"] == {"in": [], "out": []}
    assert not todo["create"]


def test_the_missing_part_of_a_range_is_named() -> None:
    rules = [CLUSTER[0], permission("tcp", 50000, 50999, SG), permission("tcp", 52000, 54095, SG)]
    found = ec2_findings.check_ec2(raw(groups=[group(rules)]), plan(), SecurityGroupSettings())
    assert [format_finding(one) for one in found] == [
        f"[EC-112] security group {SG} (fullmesh) lacks a rule from itself for 51000-51999/tcp."
        f" Fix: aws ec2 authorize-security-group-ingress --group-id {SG} --ip-permissions"
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
def test_any_rule_that_opens_the_ports_suffices(rules: list[Any]) -> None:
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
def test_rules_that_do_not_open_the_ports_do_not_count(rules: list[Any]) -> None:
    assert set(codes(raw(groups=[group(rules)]), plan())) == {"EC-112"}


def test_a_group_without_egress_is_named() -> None:
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


def test_only_our_outdated_rules_are_removed() -> None:
    mine = permission("-1", None, None, SG)
    mine["user_id_group_pairs"][0]["description"] = "Fullmesh fullmesh: all traffic"
    theirs = permission("tcp", 8888, 8888, SG, "192.0.2.1/32")
    theirs["ip_ranges"][0]["description"] = "Fullmesh other: ssh"
    todo = security_group.find_group_changes(
        raw(groups=[group([*CLUSTER, mine, theirs])]), plan(), SecurityGroupSettings()
    )
    assert [(one["protocol"], one["target"]) for one in todo["remove"]] == [("-1", SG)]


def test_a_rule_to_be_removed_does_not_count_as_open() -> None:
    """From efa to ports: the rule for all traffic covers the ports, and is about to be taken out."""
    mine = permission("-1", None, None, SG)
    mine["user_id_group_pairs"][0]["description"] = "Fullmesh fullmesh: all traffic"
    todo = security_group.find_group_changes(
        raw(groups=[group([mine])]), plan(), SecurityGroupSettings()
    )
    assert len(todo["remove"]) == 1
    assert [one["from_port"] for one in todo["add"]["in"]] == [29400, 29500, 50000]


def test_without_our_group_the_groups_of_the_nodes_are_checked() -> None:
    theirs = group([permission("tcp", 29500, 29500, OTHER)], ident=OTHER)
    nodes = [eni(0, "10.0.1.1", (OTHER,)), eni(1, "10.0.1.2", (OTHER,))]
    found = ec2_findings.check_ec2(raw(nodes, [theirs]), plan(), SecurityGroupSettings())
    assert [one.code for one in found] == ["EC-112"]
    lacks = "lacks a rule from itself for 29400/tcp, 50000-54095/tcp"
    assert f"security group {OTHER} (others) {lacks}" in found[0].cause
    whole = group([permission("-1", None, None, OTHER)], ident=OTHER)
    assert codes(raw(nodes, [whole]), plan()) == []


def test_a_node_in_another_network_is_the_one_named() -> None:
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
