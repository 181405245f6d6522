"""The nodes of a lab, and invalid requests."""

from __future__ import annotations

import pytest

from devtools.lab import plan
from devtools.lab.errors import LabError


def test_families_alternate_and_are_numbered_by_family() -> None:
    names = [node.name for node in plan.nodes("demo", 1, ("el", "ubuntu"), 5, False)]
    assert names == ["el1", "ubuntu1", "el2", "ubuntu2", "el3"]


def test_addresses_follow_the_index() -> None:
    first = plan.nodes("demo", 7, ("el",), 1, False)[0]
    assert (first.management_address, first.cluster_address) == ("10.77.7.11", "10.78.7.11/24")
    assert plan.nodes("demo", 26, ("el",), 1, True)[0].cluster_address == "fd78:0:0:1a::11/64"


def test_host_name_differs_from_the_inventory_name() -> None:
    for node in [*plan.nodes("demo", 1, plan.FAMILIES, 8, False), plan.outsider("demo", 1, False)]:
        assert node.hostname.split(".")[0] != node.name


def test_adding_nodes_keeps_the_first_ones() -> None:
    two = plan.nodes("demo", 1, plan.FAMILIES, 2, False)
    assert plan.nodes("demo", 1, plan.FAMILIES, 8, False)[:2] == two


def test_addresses_are_unique() -> None:
    nodes = [*plan.nodes("demo", 1, plan.FAMILIES, 8, False), plan.outsider("demo", 1, False)]
    assert len({node.management_address for node in nodes}) == len(nodes)
    assert len({node.cluster_address for node in nodes}) == len(nodes)


@pytest.mark.parametrize("name", ["", "-a", "a-", "Demo", "a_b", "a/b", "a" * 41])
def test_invalid_lab_name_is_rejected(name: str) -> None:
    with pytest.raises(LabError, match="LB-104"):
        plan.check_name(name)


@pytest.mark.parametrize("name", ["demo", "m-static-ip", "a", "a" * 40])
def test_valid_lab_name_passes(name: str) -> None:
    assert plan.check_name(name) == name


@pytest.mark.parametrize("count", [0, -1, 9])
def test_invalid_node_count_is_rejected(count: int) -> None:
    with pytest.raises(LabError, match=rf"LB-105.*{count}"):
        plan.check_count(count)


@pytest.mark.parametrize("text", ["", "arch", "el,arch", ","])
def test_unknown_families_are_rejected(text: str) -> None:
    with pytest.raises(LabError, match="LB-113"):
        plan.check_families(text)


def test_known_families_pass() -> None:
    assert plan.check_families("ubuntu, el") == ("ubuntu", "el")
    assert plan.check_families("debian12,debian13") == ("debian12", "debian13")


def test_node_number_is_separate_from_the_release() -> None:
    names = [node.name for node in plan.nodes("demo", 1, ("debian12", "debian13"), 3, False)]
    assert names == ["debian12-1", "debian13-1", "debian12-2"]
