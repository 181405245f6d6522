"""EC2: security groups."""

from __future__ import annotations

from typing import Any

import pytest
from ec2_account import (
    CLUSTER,
    OTHER,
    SG,
    VPC,
    build_account,
    build_plan,
    describe_group,
    describe_interface,
    describe_rule,
    find_codes,
)

from fullmesh.ec2 import findings as ec2_findings
from fullmesh.ec2 import security_group
from fullmesh.ec2.settings import SecurityGroupSettings
from fullmesh.result.findings import format_finding


def find_group_faults(seen: dict[str, Any], own: dict[str, Any], **settings: Any) -> str:
    """Return the faults for which the role stops."""
    return "\n".join(
        security_group.find_group_changes(seen, own, SecurityGroupSettings.of(settings, own))[
            "faults"
        ]
    )


def test_complete_cluster_has_no_finding_and_no_change() -> None:
    assert find_codes(build_account(), build_plan()) == []
    todo = security_group.find_group_changes(build_account(), build_plan(), SecurityGroupSettings())
    assert (todo["faults"], todo["missing"], todo["attach"]) == ([], [], {})
    assert todo["add"] == {"in": [], "out": []}
    assert not todo["create"]


def test_missing_part_of_a_range_is_reported() -> None:
    rules = [
        CLUSTER[0],
        describe_rule("tcp", 50000, 50999, SG),
        describe_rule("tcp", 52000, 54095, SG),
    ]
    found = ec2_findings.check_ec2(
        build_account(groups=[describe_group(rules)]), build_plan(), SecurityGroupSettings()
    )
    assert [format_finding(one) for one in found] == [
        f"[EC-112] security group {SG} (fullmesh) lacks a rule from itself for 51000-51999/tcp."
        f" Fix: aws ec2 authorize-security-group-ingress --group-id {SG} --ip-permissions"
        f" 'IpProtocol=tcp,FromPort=51000,ToPort=51999,UserIdGroupPairs=[{{GroupId={SG}}}]'."
    ]
    add = security_group.find_group_changes(
        build_account(groups=[describe_group(rules)]), build_plan(), SecurityGroupSettings()
    )["add"]["in"]
    assert [(one["from_port"], one["to_port"], one["group_id"]) for one in add] == [
        (50000, 54095, SG)
    ]


@pytest.mark.parametrize(
    "rules",
    [
        [describe_rule("-1", None, None, SG)],
        [describe_rule("tcp", 0, 65535, "10.0.0.0/8")],
        [describe_rule("tcp", 29000, 55000, "10.0.1.0/31", "10.0.1.2/32", "10.0.1.0/24")],
    ],
)
def test_any_rule_that_opens_the_ports_suffices(rules: list[Any]) -> None:
    assert find_codes(build_account(groups=[describe_group(rules)]), build_plan()) == []


@pytest.mark.parametrize(
    "rules",
    [
        [describe_rule("udp", 0, 65535, SG)],
        [describe_rule("tcp", 0, 65535, "10.0.1.1/32")],  # one of the two members
        [describe_rule("tcp", 0, 65535, OTHER)],
        [describe_rule("tcp", 0, 65535, "2001:db8::/32")],
    ],
)
def test_rules_that_do_not_open_the_ports_do_not_count(rules: list[Any]) -> None:
    assert set(find_codes(build_account(groups=[describe_group(rules)]), build_plan())) == {
        "EC-112"
    }


def test_group_without_egress_is_reported() -> None:
    found = ec2_findings.check_ec2(
        build_account(groups=[describe_group(CLUSTER, out=[])]),
        build_plan(),
        SecurityGroupSettings(),
    )
    assert {one.direction for one in found} == {"out"}
    assert "lacks a rule to itself for 50000-54095/tcp" in "\n".join(one.cause for one in found)


def test_efa_needs_both_directions_by_group_id() -> None:
    whole = describe_rule("-1", None, None, SG)
    assert (
        find_codes(
            build_account(groups=[describe_group([whole], [whole])]), build_plan(), mode="efa"
        )
        == ["EC-125"] * 2
    )
    inward_only = ec2_findings.check_ec2(
        build_account(groups=[describe_group([whole])]),
        build_plan(),
        SecurityGroupSettings(mode="efa"),
    )
    lacking = [one for one in inward_only if one.code == "EC-113"]
    assert [one.direction for one in lacking] == ["out"]
    assert "the default outbound 0.0.0.0/0 does not replace it" in lacking[0].cause
    wide = describe_rule("-1", None, None, "10.0.0.0/8")
    by_network = ec2_findings.check_ec2(
        build_account(groups=[describe_group([wide], [wide])]),
        build_plan(),
        SecurityGroupSettings(mode="efa"),
    )
    assert [one.direction for one in by_network if one.code == "EC-113"] == ["in", "out"]


def test_a_second_group_on_every_interface_counts() -> None:
    """The rules of all groups add up. For EFA, any of them may have the rule from and to itself."""
    both = (SG, OTHER)
    nodes = [describe_interface(0, "10.0.1.1", both), describe_interface(1, "10.0.1.2", both)]
    whole = describe_rule("-1", None, None, OTHER)
    groups = [describe_group([]), describe_group([whole], [whole], ident=OTHER)]
    assert find_codes(build_account(nodes, groups), build_plan(), groups=[SG, OTHER]) == []
    efa = security_group.find_group_changes(
        build_account(nodes, groups),
        build_plan(),
        SecurityGroupSettings(mode="efa", groups=(SG, OTHER)),
    )
    assert efa["missing"] == []
    # a rule for the other group is not a rule from and to itself
    crossed = [describe_group([whole], [whole]), describe_group([], [], ident=OTHER)]
    assert "EC-113" in find_codes(
        build_account(nodes, crossed), build_plan(), groups=[SG, OTHER], mode="efa"
    )


def test_mode_ports_on_efa_instances_gives_a_warning() -> None:
    nodes = [describe_interface(at, f"10.0.1.{at + 1}", interface_type="efa") for at in (0, 1)]
    found = ec2_findings.check_ec2(build_account(nodes), build_plan(), SecurityGroupSettings())
    assert {(one.code, one.severity) for one in found} == {("EC-113", "warning")}


def test_every_efa_interface_gets_the_group() -> None:
    more = describe_interface(9, "", (OTHER,), interface_type="efa-only", private_ip_addresses=[])
    more["attachment"] = {"instance_id": "i-1"}
    nodes = [describe_interface(0, "10.0.1.1"), describe_interface(1, "10.0.1.2"), more]
    groups = [describe_group(CLUSTER), describe_group([], ident=OTHER)]
    attach = security_group.find_group_changes(
        build_account(nodes, groups), build_plan(), SecurityGroupSettings()
    )["attach"]
    assert {node: [one["eni"] for one in own] for node, own in attach.items()} == {"n1": ["eni-9"]}
    assert attach["n1"][0]["groups"] == [OTHER, SG]
    # an ordinary interface of the same instance does not belong to the cluster
    more["interface_type"] = "interface"
    assert (
        security_group.find_group_changes(
            build_account(nodes, groups), build_plan(), SecurityGroupSettings()
        )["attach"]
        == {}
    )


def test_efa_in_two_zones_is_reported() -> None:
    nodes = [
        describe_interface(0, "10.0.1.1", interface_type="efa"),
        describe_interface(1, "10.0.1.2", interface_type="efa", availability_zone="us-east-1b"),
    ]
    whole = describe_rule("-1", None, None, SG)
    assert find_codes(
        build_account(nodes, [describe_group([whole], [whole])]), build_plan(), mode="efa"
    ) == ["EC-119"]


def test_all_missing_nodes_are_named() -> None:
    nodes = [
        describe_interface(0, "10.0.1.1"),
        describe_interface(1, "10.0.1.2", vpc_id="vpc-other"),
        describe_interface(3, "10.0.1.4"),
        describe_interface(4, "10.0.1.4"),
    ]
    own = build_plan(*(f"10.0.1.{at}/24" for at in (1, 2, 3, 4)))
    text = find_group_faults(build_account(nodes), own, vpc_id=VPC)
    assert (
        "[EC-110] n1 (10.0.1.2) is i-1 in vpc-other, but the cluster's VPC is vpc-0a0a0a0a" in text
    )
    assert "[EC-108] n2: no network interface has the cluster address 10.0.1.3" in text
    assert "[EC-109] n3: eni-3, eni-4 all have 10.0.1.4" in text


def test_the_same_address_in_another_vpc_is_not_the_node() -> None:
    nodes = [
        describe_interface(0, "10.0.1.1"),
        describe_interface(1, "10.0.1.2"),
        describe_interface(7, "10.0.1.2", vpc_id="vpc-other"),
    ]
    assert find_group_faults(build_account(nodes), build_plan()) == ""


@pytest.mark.parametrize(
    ("groups", "code"),
    [
        (["sg-00000000000000000"], "EC-105"),
        (["Name=nothing"], "EC-105"),
        (["Team=ml"], "EC-106"),
        (["sg-0aaaaaaaaaaaaaaaa"], "EC-110"),
    ],
)
def test_unusable_groups_are_reported(groups: list[str], code: str) -> None:
    tagged = {"Team": "ml"}
    there = [
        describe_group(CLUSTER, tags=tagged),
        describe_group([], ident=OTHER, tags=tagged),
        describe_group([], ident="sg-0aaaaaaaaaaaaaaaa", vpc_id="vpc-other"),
    ]
    assert code in find_group_faults(
        build_account(groups=there), build_plan(), groups=groups, vpc_id=VPC
    )


def test_used_group_name_is_reported() -> None:
    assert "EC-107" in find_group_faults(
        build_account(groups=[describe_group(CLUSTER, tags={})]), build_plan()
    )


def test_full_interfaces_and_groups_are_reported() -> None:
    five = tuple(f"sg-0000000{at}" for at in range(5))
    nodes = [describe_interface(0, "10.0.1.1", five), describe_interface(1, "10.0.1.2")]
    assert "[EC-116] n0: eni-0 has 5 of 5 groups" in find_group_faults(
        build_account(nodes), build_plan()
    )
    assert find_group_faults(build_account(nodes), build_plan(), interface_limit=6) == ""
    many = [describe_rule("tcp", 22, 22, *(f"192.0.2.{at}/32" for at in range(59)))]
    assert "[EC-117]" in find_group_faults(
        build_account(groups=[describe_group(many)]), build_plan()
    )
    # IPv6 networks have their own quota
    six = [describe_rule("tcp", 22, 22, *(f"2001:db8::{at}/128" for at in range(1, 58)))]
    both = [*many, *six]
    assert (
        find_group_faults(build_account(groups=[describe_group(both)]), build_plan(), rule_limit=62)
        == ""
    )


def test_only_our_outdated_rules_are_removed() -> None:
    mine = describe_rule("-1", None, None, SG)
    mine["user_id_group_pairs"][0]["description"] = "Fullmesh fullmesh: all traffic"
    others_group = describe_rule("tcp", 8888, 8888, SG, "192.0.2.1/32")
    others_group["ip_ranges"][0]["description"] = "Fullmesh other: ssh"
    todo = security_group.find_group_changes(
        build_account(groups=[describe_group([*CLUSTER, mine, others_group])]),
        build_plan(),
        SecurityGroupSettings(),
    )
    assert [(one["protocol"], one["target"]) for one in todo["remove"]] == [("-1", SG)]


def test_a_rule_to_be_removed_does_not_count_as_open() -> None:
    """From efa to ports: the rule for all traffic covers the ports, and the role is about to remove it."""
    mine = describe_rule("-1", None, None, SG)
    mine["user_id_group_pairs"][0]["description"] = "Fullmesh fullmesh: all traffic"
    todo = security_group.find_group_changes(
        build_account(groups=[describe_group([mine])]), build_plan(), SecurityGroupSettings()
    )
    assert len(todo["remove"]) == 1
    assert [one["from_port"] for one in todo["add"]["in"]] == [29400, 29500, 50000]


def test_without_our_group_the_groups_of_the_nodes_are_checked() -> None:
    others_group = describe_group([describe_rule("tcp", 29500, 29500, OTHER)], ident=OTHER)
    nodes = [
        describe_interface(0, "10.0.1.1", (OTHER,)),
        describe_interface(1, "10.0.1.2", (OTHER,)),
    ]
    found = ec2_findings.check_ec2(
        build_account(nodes, [others_group]), build_plan(), SecurityGroupSettings()
    )
    assert [one.code for one in found] == ["EC-112"]
    missing_ports = "lacks a rule from itself for 29400/tcp, 50000-54095/tcp"
    assert f"security group {OTHER} (others) {missing_ports}" in found[0].cause
    whole = describe_group([describe_rule("-1", None, None, OTHER)], ident=OTHER)
    assert find_codes(build_account(nodes, [whole]), build_plan()) == []


def test_node_in_another_network_is_named() -> None:
    first, second = (
        describe_group([describe_rule("-1", None, None, OTHER)], ident=OTHER),
        "sg-0bbbbbbbb",
    )
    nodes = [describe_interface(at, f"10.0.1.{at + 1}", (OTHER,)) for at in (0, 1)]
    nodes.append(describe_interface(2, "10.0.1.3", (second,)))
    own = build_plan(*(f"10.0.1.{at}/24" for at in (1, 2, 3)))
    lone = describe_group([], ident=second)
    found = ec2_findings.check_ec2(
        build_account(nodes, [first, lone]), own, SecurityGroupSettings()
    )
    assert [(one.code, one.node, one.peer) for one in found] == [("EC-111", "n2", "n0, n1")]


def test_ssh_is_open_to_the_configured_networks_only() -> None:
    todo = security_group.find_group_changes(
        build_account(groups=[]),
        build_plan(),
        SecurityGroupSettings.of({"ssh_from": ["203.0.113.7", "2001:db8::/48"]}, build_plan()),
    )
    ssh = [one for one in todo["add"]["in"] if one.get("from_port") == 22]
    assert [(one.get("cidr_ip"), one.get("cidr_ipv6")) for one in ssh] == [
        ("203.0.113.7/32", None),
        (None, "2001:db8::/48"),
    ]
    everybody = [*CLUSTER, describe_rule("tcp", 0, 1024, "0.0.0.0/0")]
    found = ec2_findings.check_ec2(
        build_account(groups=[describe_group(everybody)]), build_plan(), SecurityGroupSettings()
    )
    assert [(one.code, one.severity) for one in found] == [("EC-118", "warning")]
