"""EC2: undo, and rules that become one."""

from __future__ import annotations

import ipaddress
from typing import Any

from ec2_account import CLUSTER, OTHER, SG, eni, group, permission, plan, raw
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


def test_undo_without_remaining_nodes_finds_its_group() -> None:
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
