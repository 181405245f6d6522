"""EC2: network access lists and IPv6."""

from __future__ import annotations

from typing import Any

import pytest
from ec2_account import (
    ALL_OUT,
    CLUSTER,
    SG,
    build_account,
    build_plan,
    describe_group,
    describe_interface,
    describe_rule,
    find_codes,
)

from fullmesh.ec2 import findings as ec2_findings
from fullmesh.ec2 import place as ec2_place
from fullmesh.ec2.settings import SecurityGroupSettings
from fullmesh.result.findings import format_finding


def describe_acl(
    subnet: str, ingress: list[list[Any]], egress: list[list[Any]] | None = None
) -> Any:
    """Describe an ACL as ec2_vpc_nacl_info does."""
    end = [32767, "all", "deny", "0.0.0.0/0", None, None, 0, 65535]
    allow = [100, "all", "allow", "0.0.0.0/0", None, None, 0, 65535]
    return {
        "nacl_id": f"acl-{subnet}",
        "subnets": [subnet],
        "ingress": [*ingress, end],
        "egress": [*([allow] if egress is None else egress), end],
    }


def place_in_two_subnets(*acls: Any) -> dict[str, Any]:
    """Place one node in each of two subnets."""
    nodes = [
        describe_interface(0, "10.0.1.1"),
        describe_interface(1, "10.0.1.2", subnet_id="subnet-b"),
    ]
    return build_account(nodes, acls=list(acls))


OPEN = [100, "all", "allow", "0.0.0.0/0", None, None, 0, 65535]


def test_denying_acl_rule_is_named() -> None:
    deny = [50, "tcp", "deny", "10.0.1.0/24", None, None, 50000, 50999]
    seen = place_in_two_subnets(
        describe_acl("subnet-a", [OPEN]), describe_acl("subnet-b", [deny, OPEN])
    )
    found = ec2_findings.check_ec2(seen, build_plan(), SecurityGroupSettings())
    assert [format_finding(one) for one in found] == [
        "[EC-114] network ACL acl-subnet-b of subnet-b blocks inbound traffic from n0 at 50000-50999/tcp:"
        " its rule 50 denies them. Check: aws ec2 describe-network-acls --network-acl-ids acl-subnet-b."
        " Fix: Allow 50000-50999/tcp inbound in acl-subnet-b, below rule 50."
    ]


def test_acl_without_a_matching_rule_is_reported() -> None:
    some = [100, "tcp", "allow", "10.0.0.0/8", None, None, 29400, 29500]
    seen = place_in_two_subnets(
        describe_acl("subnet-a", [OPEN], [some]), describe_acl("subnet-b", [OPEN])
    )
    found = ec2_findings.check_ec2(seen, build_plan(), SecurityGroupSettings())
    assert [(one.code, one.direction, one.port) for one in found] == [
        ("EC-114", "out", "50000-54095/tcp")
    ]
    assert "none of its rules allows them" in found[0].cause


def plan_services(*entries: Any) -> dict[str, Any]:
    """Plan two nodes with services, and a controller in another network."""
    more = {"fullmesh_services": list(entries), "fullmesh_controllers": ["198.51.100.9"]}
    return build_plan("10.0.1.1/24", "10.0.1.2/24", **more)


def test_an_acl_that_blocks_a_service_names_the_service() -> None:
    """Ray's control store runs on n0 only, its workers' range is on both nodes."""
    deny = [50, "tcp", "deny", "10.0.1.0/24", None, None, 6379, 6379]
    own = plan_services("ray")
    settings = SecurityGroupSettings.of({}, own)
    groups = [describe_group([*CLUSTER, describe_rule("tcp", 0, 65535, SG, "198.51.100.9/32")])]

    def found(where: str) -> list[str]:
        rules: dict[str, list[list[Any]]] = {name: [OPEN] for name in ("subnet-a", "subnet-b")} | {
            where: [deny, OPEN]
        }
        seen = place_in_two_subnets(*(describe_acl(name, lines) for name, lines in rules.items()))
        seen["groups"] = groups
        return [format_finding(one) for one in ec2_findings.check_ec2(seen, own, settings)]

    assert found("subnet-a") == [
        "[EC-114] network ACL acl-subnet-a of subnet-a blocks inbound traffic from n1 at 6379/tcp (ray gcs):"
        " its rule 50 denies them. Check: aws ec2 describe-network-acls --network-acl-ids acl-subnet-a."
        " Fix: Allow 6379/tcp inbound in acl-subnet-a, below rule 50."
    ]
    assert found("subnet-b") == []


@pytest.mark.parametrize(
    ("reach", "source", "other"),
    [
        ("controllers", "198.51.100.9/32", "0.0.0.0/0"),
        ("everybody", "0.0.0.0/0", "198.51.100.9/32"),
    ],
)
def test_an_acl_must_allow_clients_of_a_service_and_its_replies(
    reach: str, source: str, other: str
) -> None:
    own = plan_services({"name": "panel", "ports": {"web": 8443}, "reach": reach, "nodes": ["n1"]})
    inside = [100, "all", "allow", "10.0.0.0/8", None, None, 0, 65535]
    ssh = [90, "tcp", "allow", "198.51.100.9/32", None, None, 22, 22]
    back = [95, "tcp", "allow", "198.51.100.9/32", None, None, 1024, 65535]
    # everything that ssh needs is open: only the service's ports are missing
    denied_ports = place_in_two_subnets(
        describe_acl("subnet-a", [ssh, inside]),
        describe_acl("subnet-b", [ssh, inside], [back, inside]),
    )
    denied_ports["groups"] = [
        describe_group(
            [*CLUSTER, describe_rule("tcp", 0, 65535, SG, "198.51.100.9/32", "0.0.0.0/0", "::/0")]
        )
    ]
    found = [
        one
        for one in ec2_findings.check_ec2(denied_ports, own, SecurityGroupSettings.of({}, own))
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


def test_acl_is_ignored_inside_one_subnet() -> None:
    nodes = [describe_interface(0, "10.0.1.1"), describe_interface(1, "10.0.1.2")]
    assert (
        find_codes(build_account(nodes, acls=[describe_acl("subnet-a", [], [])]), build_plan())
        == []
    )


def test_acl_must_allow_replies() -> None:
    """The requests pass, and the answers to a client outside the pinned range do not."""
    pinned = [
        [100, "tcp", "allow", "10.0.0.0/8", None, None, 29400, 29500],
        [110, "tcp", "allow", "10.0.0.0/8", None, None, 50000, 54095],
    ]
    seen = place_in_two_subnets(
        describe_acl("subnet-a", pinned, pinned), describe_acl("subnet-b", pinned, pinned)
    )
    assert ec2_findings.check_ec2(seen, build_plan(), SecurityGroupSettings()) == []
    found = ec2_findings.check_ec2(seen, build_plan(), SecurityGroupSettings(), [(32768, 60999)])
    assert {one.code for one in found} == {"EC-115"}
    assert "32768-49999/tcp, 54096-60999/tcp" in found[0].cause
    own = SecurityGroupSettings.of({"ssh_from": ["203.0.113.7"]}, build_plan())
    inward = [[90, "tcp", "allow", "203.0.113.0/24", None, None, 22, 22], *pinned]
    rules = [*CLUSTER, describe_rule("tcp", 22, 22, "203.0.113.7/32")]
    seen = place_in_two_subnets(
        describe_acl("subnet-a", inward, pinned), describe_acl("subnet-b", inward, [OPEN])
    )
    seen["groups"] = [describe_group(rules)]
    found = ec2_findings.check_ec2(seen, build_plan(), own)
    assert [(one.code, one.direction, one.port) for one in found] == [
        ("EC-115", "out", "1024-65535/tcp")
    ]


def test_ipv6_nodes_need_ipv6_rules() -> None:
    own = build_plan("2001:db8:1::1/64", "2001:db8:1::2/64")
    nodes = [
        describe_interface(
            at, f"10.0.1.{at + 1}", ipv6_addresses=[{"ipv6_address": f"2001:db8:1::{at + 1}"}]
        )
        for at in (0, 1)
    ]
    # the default egress rule of an IPv4 VPC allows IPv4 only
    assert find_codes(build_account(nodes), own) == ["EC-112"] * 3
    out = [ALL_OUT, describe_rule("-1", None, None, "::/0")]
    assert find_codes(build_account(nodes, [describe_group(CLUSTER, out)]), own) == []
    assert ec2_place.build_address_filters(own) == [
        {"ipv6-addresses.ipv6-address": ["2001:db8:1::1", "2001:db8:1::2"]}
    ]
    four_only = [describe_rule("tcp", 0, 65535, "0.0.0.0/0")]
    assert "EC-112" in find_codes(build_account(nodes, [describe_group(four_only)]), own)
    nodes[1]["subnet_id"] = "subnet-b"
    denied_ports = describe_acl("subnet-b", [OPEN], [OPEN])  # IPv4 only
    assert find_codes(
        build_account(nodes, [describe_group(CLUSTER, out)], [denied_ports]), own
    ) == ["EC-114", "EC-114"]


def test_filters_are_split_at_the_limit_of_aws() -> None:
    own = build_plan(*(f"10.0.{at // 200}.{at % 200 + 1}/16" for at in range(250)))
    assert [len(next(iter(one.values()))) for one in ec2_place.build_address_filters(own)] == [
        100,
        100,
        50,
    ]
