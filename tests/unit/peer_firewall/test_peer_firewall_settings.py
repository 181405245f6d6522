"""The peers' firewall: invalid settings are rejected."""

from __future__ import annotations

from typing import Any

import pytest
from firewall_machine import PEERS

from fullmesh.roles import peer_firewall

OPTIONS: dict[str, Any] = {
    "mode": "peers_range",
    "zone": "fullmesh",
    "rdma": "auto",
    "ufw": "carry",
    "existing_services": "refuse",
    "off_confirmed": False,
    "rollback_seconds": 60,
}


def find_faults(
    peers: list[str] = PEERS,
    controllers: list[str] | None = None,
    ports: list[str] | None = None,
    options: dict[str, Any] = OPTIONS,
    groups: list[str] | None = None,
) -> list[Any]:
    lists = {"peers": peers, "controllers": controllers or [], "ports": ports or []}
    build_foreign_rules: dict[str, list[str]] = {"controllers": [], "everybody": []}
    return peer_firewall.find_firewall_faults(
        {**options, **lists, "others": build_foreign_rules, "tunnel": {"peers": [], "ports": []}},
        groups or [],
    )


@pytest.mark.parametrize(
    ("value", "mode"), [(False, "off"), ("off", "off"), ("peers_range", "peers_range")]
)
def test_yaml_off_is_accepted_as_mode(value: object, mode: str) -> None:
    assert peer_firewall.parse_firewall_mode(value) == mode


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("PF-101", {"mode": "open"}),
        ("PF-101", {"mode": True}),
        ("PF-103", {"ports": ["tcp"]}),
        ("PF-103", {"ports": ["123"]}),
        ("PF-103", {"ports": ["200-100/tcp"]}),
        ("PF-103", {"ports": ["70000/tcp"]}),
        ("PF-103", {"ports": ["0/udp"]}),
        ("PF-103", {"ports": ["0123/tcp"]}),
        ("PF-103", {"ports": ["123-123/udp"]}),
        ("PF-103", {"ports": ["100-0123/udp"]}),
        ("PF-103", {"ports": ["65536/udp"]}),
        ("PF-103", {"ports": ["\u0661\u0662\u0663/udp"]}),  # Arabic digits
        ("PF-104", {"zone": "public"}),
        ("PF-104", {"zone": "a-name-that-is-too-long"}),
        ("PF-104", {"zone": "../x"}),
        ("PF-105", {"rollback_seconds": 5}),
        ("PF-105", {"rollback_seconds": -1}),
        ("PF-107", {"rdma": "yes"}),
        ("PF-107", {"ufw": "keep"}),
        ("PF-107", {"existing_services": "carry"}),
    ],
)
def test_invalid_settings_are_refused(code: str, change: dict[str, Any]) -> None:
    found = find_faults(PEERS, [], change.get("ports", ["29500/tcp"]), OPTIONS | change)
    assert [fault.code for fault in found] == [code]


@pytest.mark.parametrize("port", ["1/tcp", "65535/udp", "123-124/udp", "1-65535/tcp", "22/sctp"])
def test_valid_ports_pass(port: str) -> None:
    assert find_faults(PEERS, [], [port], OPTIONS) == []


@pytest.mark.parametrize("peers", [[], ["node1"], ["10.0.0.0/24"]])
def test_peers_are_single_addresses(peers: list[str]) -> None:
    assert {fault.code for fault in find_faults(peers, [], [], OPTIONS)} == {"PF-102"}


@pytest.mark.parametrize(
    ("controllers", "codes"),
    [
        (["10.9.0.0/16", "198.51.100.7", "fd00:9::/32"], set()),
        (["10.9.0.1/16"], {"PF-102"}),
        (["bastion"], {"PF-102"}),
        (["0.0.0.0/0"], {"PF-102"}),
        (["::/0"], {"PF-102"}),
    ],
)
def test_controllers_are_addresses_and_networks(controllers: list[str], codes: set[str]) -> None:
    assert {fault.code for fault in find_faults(PEERS, controllers, [], OPTIONS)} == codes


def test_zero_seconds_disables_the_rollback() -> None:
    assert find_faults(PEERS, ["fe80::1%eth0"], [], OPTIONS | {"rollback_seconds": 0}) == []


@pytest.mark.parametrize(
    ("group", "confirmed", "codes"),
    [
        ("prod", False, ["PF-106"]),
        ("gpu-production", False, ["PF-106"]),
        ("LIVE_eu", False, ["PF-106"]),
        ("prod", True, []),
        ("products", False, []),
        ("alive", False, []),
        ("lab", False, []),
    ],
)
def test_off_in_production_needs_a_confirmation(
    group: str, confirmed: bool, codes: list[str]
) -> None:
    options = OPTIONS | {"mode": False, "off_confirmed": confirmed}
    found = find_faults(PEERS, [], [], options, ["torch_nodes", group])
    assert [fault.code for fault in found] == codes
    assert find_faults(PEERS, [], [], OPTIONS, [group]) == []


@pytest.mark.parametrize(
    ("value", "word"), [(True, "true"), (False, "false"), (" Auto", "auto"), ("carry", "carry")]
)
def test_yaml_boolean_becomes_a_word(value: object, word: str) -> None:
    assert peer_firewall.parse_word(value) == word
