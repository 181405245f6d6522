"""The rollback to a node that has moved, the addresses that it must reach, and the report of a failure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fullmesh import transaction
from fullmesh.filters import static_ip
from fullmesh.model.addresses import split_host_port

HOST = {"ansible_host": "198.51.100.7", "ansible_ssh_common_args": "-o X=y"}


def test_a_moved_node_is_known_by_its_bootstrap_key() -> None:
    assert transaction.find_new_connection(HOST, "n1", "192.0.2.11") == {
        "host": "192.0.2.11",
        "port": 0,
        "args": "-o X=y -o HostKeyAlias=198.51.100.7",
    }


@pytest.mark.parametrize(
    ("variables", "way"),
    [
        ({}, {"host": "192.0.2.11", "port": 0, "args": "-o HostKeyAlias=n1"}),
        (
            {"ansible_port": 2222},
            {"host": "192.0.2.11", "port": 2222, "args": "-o HostKeyAlias=[n1]:2222"},
        ),
        (
            {"fullmesh_ssh_address": "127.0.0.1:2223"},
            {"host": "127.0.0.1", "port": 2223, "args": "-o HostKeyAlias=n1"},
        ),
        (
            {"ansible_ssh_extra_args": "-o HostKeyAlias=mine"},
            {"host": "192.0.2.11", "port": 0, "args": ""},
        ),
        (
            {"fullmesh_bootstrap": {"host": "old", "port": 0, "args": ""}, "ansible_host": "x"},
            {"host": "192.0.2.11", "port": 0, "args": "-o HostKeyAlias=old"},
        ),
    ],
)
def test_ways(variables: dict[str, Any], way: dict[str, Any]) -> None:
    assert transaction.find_new_connection(variables, "n1", "192.0.2.11") == way


def test_ssh_settings_of_the_environment_apply_to_the_new_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The variable that carries the name of the key goes before the environment, so it has to hold all of it."""
    monkeypatch.setenv("ANSIBLE_SSH_COMMON_ARGS", "-J gate")
    monkeypatch.setenv("ANSIBLE_REMOTE_PORT", "2222")
    host = {"ansible_host": "198.51.100.7"}
    assert static_ip.static_ip_way(host, "n1", "192.0.2.11") == {
        "host": "192.0.2.11",
        "port": 2222,
        "args": "-J gate -o HostKeyAlias=[198.51.100.7]:2222",
    }
    assert static_ip.static_ip_here(host, "n1")["args"] == "-J gate"
    moved = {**host, "ansible_ssh_common_args": "-J gate -o HostKeyAlias=n1"}
    moved["fullmesh_bootstrap"] = static_ip.static_ip_bootstrap(host, "n1")
    assert static_ip.static_ip_bootstrap(moved, "n1")["args"] == "-J gate"


@pytest.mark.parametrize("address", ["", "198.51.100.7"])
def test_a_node_that_has_not_moved_is_reached_as_ever(address: str) -> None:
    assert transaction.find_new_connection(
        HOST, "n1", address
    ) == transaction.find_current_connection(HOST, "n1")


def test_the_rollback_connection_uses_the_inventorys_settings() -> None:
    moved = transaction.find_new_connection(HOST, "n1", "192.0.2.11")
    facts = {
        "fullmesh_bootstrap": transaction.find_first_connection(HOST, "n1"),
        "ansible_host": moved["host"],
        "ansible_ssh_common_args": moved["args"],
    }
    assert transaction.find_new_connection(facts, "n1", "") == {
        "host": "198.51.100.7",
        "port": 0,
        "args": "-o X=y",
    }


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("", 0)),
        ("host", ("host", 0)),
        ("host:22", ("host", 22)),
        ("fd00::1", ("fd00::1", 0)),
        ("[fd00::1]:2222", ("fd00::1", 2222)),
        ("[fd00::1]", ("fd00::1", 0)),
    ],
)
def test_addresses_with_ports(text: str, parts: tuple[str, int]) -> None:
    assert split_host_port(text) == parts


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({"fullmesh_address": "192.0.2.11/24"}, "192.0.2.11"),
        ({"fullmesh_address": ["fd00::1/64", "192.0.2.11/24"]}, "fd00::1"),
        ({"fullmesh_links": [{"address": "192.0.2.12/24"}]}, "192.0.2.12"),
        ({"fullmesh_links": [{"addresses": ["192.0.2.13/24"]}]}, "192.0.2.13"),
        ({}, ""),
    ],
)
def test_where_a_node_is_once_it_has_its_addresses(variables: dict[str, Any], address: str) -> None:
    assert transaction.find_moved_address(variables) == address


def test_a_peer_that_is_not_up_yet_is_no_fault() -> None:
    peers = {"n1": "192.0.2.1", "n2": "192.0.2.2", "n3": "192.0.2.3", "n4": "192.0.2.4"}
    hostvars: dict[str, dict[str, Any]] = {
        "n1": {},
        "n2": {},
        "n3": {"__static_ip_back": True},
        "n4": {},
    }
    assert transaction.list_peers_up(peers, hostvars, "n1", {"fullmesh_converged": ["n4"]}) == [
        "192.0.2.3",
        "192.0.2.4",
    ]
    assert transaction.list_peers_up(peers, hostvars, "n3", {}) == []


MOVES, STAYS = {"__static_ip_plan": {"needed": True}}, {"__static_ip_plan": {"needed": False}}


@pytest.mark.parametrize(
    ("hostvars", "drifted", "up"),
    [
        # outside of this run, or known nowhere
        ({"n2": {}}, [], True),
        ({}, [], True),
        # what else it needs, its addresses stay
        ({"n2": STAYS}, ["n2"], True),
        # it moves now, or may when its turn comes
        ({"n2": MOVES}, ["n2"], False),
        ({"n2": {}}, ["n2"], False),
        ({"n2": MOVES | {"__static_ip_back": True}}, ["n2"], True),
    ],
)
def test_a_known_peer_is_up_unless_it_moves(
    hostvars: dict[str, dict[str, Any]], drifted: list[str], up: bool
) -> None:
    peers, address = {"n1": "192.0.2.1", "n2": "192.0.2.2"}, "192.0.2.2"
    groups = {"fullmesh_drifted": drifted}
    found = transaction.list_peers_up(peers, hostvars, "n1", groups, [address])
    assert found == ([address] if up else [])
    assert transaction.list_peers_up(peers, {"n2": STAYS}, "n1", groups, []) == []


def test_master_and_next_nodes_are_asked_before_a_change() -> None:
    peers = {f"n{rank}": f"192.0.2.{rank}" for rank in range(12)}
    asked = transaction.list_witnesses(peers, "n9", "n0")
    assert asked == [f"192.0.2.{rank}" for rank in (0, 10, 11, 1, 2, 3, 4, 5, 6)]
    assert "192.0.2.0" not in transaction.list_witnesses(peers, "n0", "n0")
    assert transaction.list_witnesses({}, "n0", "") == []
    assert transaction.list_witnesses({"n1": "192.0.2.1"}, "n0", "gone") == ["192.0.2.1"]


def test_a_failure_lists_attempts_answers_and_next_checks() -> None:
    report = {"after": 14.2, "why": "nobody came back", "faults": ["x: no"]}
    said = transaction.describe_failed_change(
        "timed out\nwaiting", "n1", "eth1: 192.0.2.1/24", report, "198.51.100.7"
    )
    assert said.startswith("[IP-113] n1 did not come back on a new connection: timed out waiting.")
    for part in ("Tried on n1: eth1: 192.0.2.1/24", "14.2 s after", "198.51.100.7", "x: no", "log"):
        assert part in said


def test_a_coded_failure_keeps_its_code() -> None:
    said = transaction.describe_failed_change(
        "[IP-107] not as wanted.", "n1", "x", {}, "198.51.100.7"
    )
    assert said.startswith(
        "[IP-107] not as wanted. Tried on n1: x. The node answers at 198.51.100.7"
    )


def test_two_changes_of_a_host_have_two_tokens() -> None:
    """One filter makes those of all three roles, so none of them can be shorter or repeat itself."""
    first, second = transaction.make_change_token("el1"), transaction.make_change_token("el1")
    assert first != second
    assert len(first) == len(second) == 16
    roles = Path(__file__).resolve().parents[2] / "roles"
    made = [
        line.strip()
        for path in roles.glob("*/tasks/*.yml")
        for line in path.read_text().splitlines()
        if re.match(r"\s+__(static_ip|peer_firewall|selinux_mode)_token: ", line)
    ]
    assert len(made) == 5
    assert {line.partition(": ")[2] for line in made} == {
        '"{{ inventory_hostname | change_token }}"'
    }
