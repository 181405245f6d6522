"""EC2: undo, and rules that are joined."""

from __future__ import annotations

import ipaddress
from typing import Any

from ec2_account import (
    CLUSTER,
    OTHER,
    SG,
    build_account,
    build_plan,
    describe_group,
    describe_interface,
    describe_rule,
)
from hypothesis import given
from hypothesis import strategies as st

from fullmesh.ec2 import acl as ec2_acl
from fullmesh.ec2 import model as ec2_model
from fullmesh.ec2 import place as ec2_place
from fullmesh.ec2 import rules as ec2_rules
from fullmesh.ec2 import security_group
from fullmesh.ec2.model import Acl, AclEntry, Need
from fullmesh.ec2.settings import SecurityGroupSettings


def test_undo_removes_what_we_created() -> None:
    both = (OTHER, SG)
    nodes = [describe_interface(0, "10.0.1.1", both), describe_interface(1, "10.0.1.2", both)]
    undo = security_group.find_undo_changes(
        build_account(nodes), build_plan(), SecurityGroupSettings()
    )
    assert undo["delete"] == SG
    assert [one["groups"] for one in undo["detach"]] == [[OTHER], [OTHER]]
    assert undo["faults"] == []


def test_undo_keeps_foreign_groups() -> None:
    """n0 had the group before, n1 got it from Fullmesh."""
    tag = {"fullmesh-cluster/fullmesh": OTHER}
    nodes = [
        describe_interface(0, "10.0.1.1", (OTHER,)),
        describe_interface(1, "10.0.1.2", ("sg-0ccccccc", OTHER), tags=tag),
    ]
    rules = describe_rule("tcp", 29500, 29500, OTHER)
    rules["user_id_group_pairs"][0]["description"] = "Fullmesh fullmesh: between members"
    others_group = describe_group([rules, describe_rule("tcp", 1, 2, OTHER)], ident=OTHER)
    undo = security_group.find_undo_changes(
        build_account(nodes, [others_group]), build_plan(), SecurityGroupSettings(groups=(OTHER,))
    )
    assert (undo["delete"], undo["group"]) == ("", OTHER)
    assert [(one["eni"], one["groups"]) for one in undo["detach"]] == [("eni-1", ["sg-0ccccccc"])]
    assert [(one["first"], one["last"]) for one in undo["remove"]] == [(29500, 29500)]


def test_undo_stops_if_others_use_the_group() -> None:
    nodes = [
        describe_interface(0, "10.0.1.1"),
        describe_interface(1, "10.0.1.2", (SG, OTHER)),
        describe_interface(7, "10.0.1.99", (SG, OTHER)),
    ]
    user = describe_group([describe_rule("tcp", 1, 2, SG)], ident=OTHER)
    text = "\n".join(
        security_group.find_undo_changes(
            build_account(nodes, [describe_group(CLUSTER), user]),
            build_plan(),
            SecurityGroupSettings(),
        )["faults"]
    )
    assert "[EC-123] eni-0 of i-0 has no other group" in text
    assert (
        f"[EC-124] security group {SG} (fullmesh) is also used by eni-7, {OTHER} (others)" in text
    )


def test_undo_without_remaining_nodes_finds_its_group() -> None:
    seen = {"interfaces": [], "groups": [describe_group(CLUSTER)], "acls": []}
    assert (
        security_group.find_undo_changes(seen, build_plan(), SecurityGroupSettings())["delete"]
        == SG
    )
    assert ec2_place.build_group_filters([], "", "fullmesh") == {"tag:fullmesh-cluster": "fullmesh"}


def test_failed_query_shows_the_cause_without_secrets() -> None:
    key, secret = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY00"
    rejected = {"msg": f"AuthFailure: {key} {secret} was not valid"}
    text = str(
        security_group.make_aws_fault(
            {"results": [{"failed": False, "msg": "x"}, {**rejected, "failed": True}]}
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
def test_subtract_leaves_exactly_the_uncovered_ranges(spans: Any, holes: Any) -> None:
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
def test_acl_decision_matches_aws_for_each_port(lines: Any) -> None:
    """The matching entry with the lowest number decides. Without a match, the traffic is denied."""
    entries = tuple(
        sorted(
            AclEntry(number, "in", protocol, allow, network, min(a, b), max(a, b))
            for number, allow, a, b, network, protocol in lines
        )
    )
    denied = ec2_acl.find_denied_ports(
        Acl("acl", ("s",), entries), "in", "10.0.1.5", Need("tcp", 0, 19)
    )
    denied_ports = {port for need, _number in denied for port in range(need.first, need.last + 1)}
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
        assert (port in denied_ports) == (first is None or not first.allow)


def test_adjacent_ports_become_one_rule() -> None:
    needs = ec2_rules.list_member_needs(
        "ports", ["29400/tcp", "29401-29410/tcp", "123/udp"], ["29405/tcp"]
    )
    assert [str(one) for one in needs] == ["29400-29410/tcp", "123/udp"]
