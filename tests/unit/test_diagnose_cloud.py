"""The diagnosis and the cloud: what AWS said becomes findings, and explains the links that fail for it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.module_utils.fullmesh.facts import efa as fullmesh_efa
from ec2_account import (
    CLUSTER,
    build_account,
    build_plan,
    describe_group,
    describe_interface,
    describe_rule,
)

from fullmesh.causes.cloud import accounts
from fullmesh.causes.relations import fold_cluster_findings
from fullmesh.diagnose import judge, shape
from fullmesh.ec2 import place
from fullmesh.filters import pattern
from fullmesh.filters.observe import ec2
from fullmesh.result.findings import Finding


def build_evidence(held: dict[str, Any], own: dict[str, Any] | None = None) -> Any:
    """A diagnosis in which no node answered and AWS did."""
    about = judge.DiagnosisRun(
        "run", "2026-11-20T18:00:00+00:00", "2026-11-20T18:00:05+00:00", ec2=held
    )
    return judge.build_evidence(own or build_plan(), {}, about)


def link(code: str, source: str, target: str) -> Finding:
    """A link that does not work."""
    return Finding(code, "L2", "silence", pairs=((source, target),), kinds=("range",))


def test_a_gap_in_the_group_explains_links_without_replies() -> None:
    held = {"raw": build_account(groups=[describe_group(CLUSTER[:1])]), "settings": {}}
    found = list(accounts.rule_security_groups(build_evidence(held)))
    assert [one.code for one in found] == ["EC-112"]
    assert found[0].rung == "L2"
    both = [link("DG-115", "n0", "n1"), link("DG-116", "n1", "n0"), link("VC-201", "n0", "n1")]
    heads = fold_cluster_findings([*both, *found])
    assert [one.code for one in heads] == ["EC-112"]
    assert {one.code for one in heads[0].follows} == {"DG-115", "DG-116", "VC-201"}


def test_a_node_outside_the_group_explains_only_its_own_links() -> None:
    nodes = [describe_interface(at, f"10.0.1.{at + 1}") for at in range(3)]
    nodes[2]["groups"] = [{"group_id": "sg-0fedcba9876543210"}]
    own = build_plan(*(f"10.0.1.{at}/24" for at in (1, 2, 3)))
    held = {"raw": build_account(nodes), "settings": {}}
    found = list(accounts.rule_security_groups(build_evidence(held, own)))
    assert [(one.code, one.node) for one in found] == [("EC-111", "n2")]
    heads = fold_cluster_findings([*found, link("DG-115", "n0", "n2"), link("DG-115", "n0", "n1")])
    assert sorted(one.code for one in heads) == ["DG-115", "EC-111"]


def test_a_warning_explains_no_error() -> None:
    wide = [*CLUSTER, describe_rule("tcp", 22, 22, "0.0.0.0/0")]
    found = list(
        accounts.rule_security_groups(
            build_evidence({"raw": build_account(groups=[describe_group(wide)]), "settings": {}})
        )
    )
    assert [one.code for one in found] == ["EC-118"]
    heads = fold_cluster_findings([*found, link("DG-115", "n0", "n1")])
    assert {one.code for one in heads} == {"EC-118", "DG-115"}


def test_without_planned_ports_the_kernels_range_is_judged() -> None:
    own = build_plan() | {"open_ports": []}
    own["data_ports"] = {"first": 32768, "last": 60999}
    found = list(
        accounts.rule_security_groups(build_evidence({"raw": build_account(), "settings": {}}, own))
    )
    assert "32768-49999/tcp, 54096-60999/tcp" in found[0].cause


@pytest.mark.parametrize("held", [{}, {"raw": {}}, {"raw": None}, {"raw": [], "settings": None}])
def test_without_an_answer_there_is_no_finding(held: dict[str, Any]) -> None:
    assert list(accounts.rule_security_groups(build_evidence(held))) == []


def test_failed_queries_are_reported() -> None:
    missed = judge.list_unobserved(
        build_evidence({"why": "[EC-122] AWS rejected the query: no credentials"})
    )
    assert {"node": "", "what": "security groups and network ACLs of EC2"}.items() <= next(
        one for one in missed if not one["node"]
    ).items()


def test_efa_passes_the_filter() -> None:
    seen = fullmesh_efa.observe_efa()
    told = shape.fit_or_default(shape.EFA, seen)
    assert told is not None
    assert told.keys() == seen.keys()
    assert shape.fit_or_default(shape.EFA, {"pci": "x"}) is None


def test_a_pair_of_numbers_of_a_hostile_node_stays_a_pair() -> None:
    empty: dict[str, Any] = {
        "proved": {},
        "refused": 0,
        "strangers": [],
        "asked": {},
        "answered": {},
    }
    told = shape.fit_or_default(shape.LISTENERS, {**empty, "lost": {"a": [1] * 1000}})
    assert told["lost"] == {"a": [1, 1]}


def test_the_hosts_that_are_queried() -> None:
    def told(vendor: str) -> dict[str, Any]:
        return {"facts": {"survey": {"efa": {"vendor": vendor}}}}

    assert place.needs_ec2_check([((), told("QEMU")), ((), told("Amazon EC2"))])
    assert place.needs_ec2_check([(("ec2_security_group_mode",), {})])
    assert not place.needs_ec2_check([((), told("QEMU")), ((), {}), ((), {"facts": None})])
    assert not place.needs_ec2_check([((), {"unreachable": True, "msg": "x"})])


def test_a_play_queries_all_hosts_or_none() -> None:
    said = {"a": {"facts": {"survey": {"efa": {"vendor": "Amazon EC2"}}}}, "b": {"failed": True}}
    held: dict[str, Any] = {"a": {"x": 1}, "b": {"__diagnose_looked": {"answers": said}}}
    assert ec2.ec2_concerned(held, ["a", "b", "left out"]) == "a,b"
    said["a"]["facts"]["survey"]["efa"]["vendor"] = "QEMU"
    assert ec2.ec2_concerned(held, ["a", "b"]) == pattern.NO_HOSTS
    assert ec2.ec2_concerned({}, ["a"]) == pattern.NO_HOSTS
    own = {"a": {"ec2_security_group_mode": "sg"}}
    assert ec2.ec2_concerned(own, ["a"]) == "a"
