"""A lab's subnets do not overlap with networks in use."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import pytest

from devtools.lab import subnets
from devtools.lab.errors import LabError


def make_used_network(network: str, interface: str = "eth0") -> tuple[subnets.Network, str]:
    return ipaddress.ip_network(network), interface


def test_first_lab_gets_the_first_index() -> None:
    assert subnets.choose("demo", {}, [], set()) == 1


def test_recorded_index_is_kept() -> None:
    assert (
        subnets.choose("demo", {"demo": 5}, [make_used_network("10.77.5.0/24", "fmlab5m")], set())
        == 5
    )


@pytest.mark.parametrize(
    "network", ["10.77.1.0/24", "10.78.1.128/25", "10.77.0.0/23", "fd78:0:0:1::/64"]
)
def test_networks_of_the_host_are_not_used(network: str) -> None:
    assert subnets.choose("demo", {}, [make_used_network(network)], set()) == 2


def test_other_labs_and_bridges_are_not_used() -> None:
    assert subnets.choose("demo", {"other": 1}, [], {"fmlab2c"}) == 3


def test_recorded_index_in_use_is_reported() -> None:
    with pytest.raises(LabError, match=r"LB-108.*eth9"):
        subnets.choose("demo", {"demo": 5}, [make_used_network("10.77.5.0/25", "eth9")], set())


def test_lack_of_free_subnets_is_reported() -> None:
    with pytest.raises(LabError, match="LB-108"):
        subnets.choose("demo", {}, [make_used_network("10.0.0.0/8")], set())


def test_routes_are_read_without_the_default_route() -> None:
    text = json.dumps(
        [
            {"dst": "default", "dev": "eth0"},
            {"dst": "10.1.0.0/16", "dev": "eth0"},
            {"dst": "10.2.0.1", "dev": "eth1"},
            {"type": "local", "dst": "10.1.0.9", "dev": "eth0"},
        ]
    )
    assert subnets.read_routes(text) == [
        make_used_network("10.1.0.0/16"),
        make_used_network("10.2.0.1/32", "eth1"),
    ]


def test_empty_route_list_has_no_networks() -> None:
    assert subnets.read_routes("") == []


def test_bridge_names_fit_the_kernel() -> None:
    assert all(len(name) <= 15 for name in subnets.bridges(subnets.LAST))


def test_allocations_persist(tmp_path: Path) -> None:
    file = tmp_path / "new" / "allocations.json"
    assert subnets.load(file) == {}
    subnets.save(file, {"b": 2, "a": 1})
    assert subnets.load(file) == {"a": 1, "b": 2}
