"""The peers' firewall: whether the kernel's rules do what the files say, and their fingerprint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.firewall import (
    firewalld,
)
from firewall_machine import (
    ACCEPT,
    JOB,
    WANT,
    ZONES,
    dport,
    job,
    jump,
    kernel,
    put,
    rendered,
    rule,
    source,
    strict,
    without,
)


def test_rules_that_match_the_files_have_no_faults() -> None:
    assert firewalld.find_ruleset_faults(kernel(), WANT) == []


@pytest.mark.parametrize(
    ("gone", "word"),
    [
        ("29500", "29500/tcp is closed over IPv4"),
        ("54095", "50000-54095/tcp is closed over IPv6"),
        ("policy_fullmesh-ssh", "controllers do not reach ssh on port 22"),
        (
            '_pre", "handle": 7, "expr": [{"jump": {"target": "filter_IN_policy_fullmesh-ssh',
            "controllers",
        ),
        (
            '_pre", "handle": 7, "expr": [{"jump": {"target": "filter_IN_policy_fullmesh-job',
            "22/tcp is closed",
        ),
        ("@fullmesh-peers6", "22/tcp is closed over IPv6"),
        ('"10.0.0.12"', "set fullmesh-peers4 holds nothing"),
    ],
)
def test_each_missing_rule_is_named(gone: str, word: str) -> None:
    assert without(gone) != kernel()
    assert any(text.startswith(word) for text in firewalld.find_ruleset_faults(without(gone), WANT))


def test_service_ports_are_proved_exactly_in_the_kernel() -> None:
    want = WANT | {"controller_ports": ["8443/tcp"], "public_ports": ["8000/tcp"]}
    ssh, public = "filter_IN_policy_fullmesh-ssh", "filter_IN_policy_fullmesh-all"
    served = [
        *kernel(),
        rule(ssh + "_allow", source("fullmesh-controllers4"), dport(8443), ACCEPT),
        jump("filter_INPUT_POLICIES_pre", public),
        rule(public + "_allow", dport(8000), ACCEPT),
    ]
    assert firewalld.find_ruleset_faults(served, want) == []
    assert firewalld.find_ruleset_faults(kernel(), want) == [
        "controllers do not reach 8443/tcp",
        "8000/tcp is closed to others",
    ]
    assert firewalld.find_ruleset_faults(served, WANT) == [
        "controllers reach 8443/tcp, which Fullmesh did not open",
        "8000/tcp is open to everybody",
    ]


def test_peers_are_bound_in_mode_peers_only_alone() -> None:
    """A node of an earlier version has them bound: it is moved over."""
    want = WANT | {"mode": "peers_only"}
    assert firewalld.find_ruleset_faults(strict(), want) == []
    assert firewalld.find_ruleset_faults(kernel(), want) == [
        "no rule sends set fullmesh-peers4 to zone fullmesh",
        "no rule sends set fullmesh-peers6 to zone fullmesh",
    ]
    assert firewalld.find_ruleset_faults(strict(), WANT) == [
        "set fullmesh-peers4 is sent to zone fullmesh",
        "set fullmesh-peers6 is sent to zone fullmesh",
    ]


def test_a_rule_that_opens_a_whole_protocol_is_named() -> None:
    match = {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "tcp"}}
    assert firewalld.find_ruleset_faults([*kernel(), job(match)], WANT) == [
        "a rule opens a whole protocol"
    ]
    trusted = WANT | {"mode": "peers_trusted"}
    assert (
        "the peers' policy does not accept everything over IPv4"
        in firewalld.find_ruleset_faults([*kernel(), job(match)], trusted)
    )


def test_a_port_too_many_and_a_flushed_ruleset_are_named() -> None:
    assert firewalld.find_ruleset_faults([*kernel(), job(dport(8443))], WANT) == [
        "8443/tcp is open, but Fullmesh did not open it"
    ]
    everybody = rule(JOB + "_allow", dport(8443), ACCEPT)
    assert firewalld.find_ruleset_faults([*kernel(), everybody], WANT) == [
        "8443/tcp is open to everybody"
    ]
    assert firewalld.find_ruleset_faults([], WANT) == ["the kernel has no table of firewalld"]


def test_trusted_requires_an_unconditional_rule_for_peers() -> None:
    want = WANT | {"mode": "peers_trusted"}
    table = [item for item in kernel() if "fullmesh-job_allow" not in str(item.get("rule"))]
    assert firewalld.find_ruleset_faults(table, want) == [
        "the peers' policy does not accept everything over IPv4",
        "the peers' policy does not accept everything over IPv6",
    ]
    table += [jump(JOB, JOB + "_allow"), job(), job(family="6")]
    assert firewalld.find_ruleset_faults(table, want) == []


@pytest.mark.parametrize(
    "elem",
    [
        ["10.0.0.12", "10.0.0.13", "10.0.0.11"],
        [{"range": ["10.0.0.11", "10.0.0.13"]}],
        ["10.0.0.11", {"prefix": {"addr": "10.0.0.12", "len": 31}}],
        ["10.0.0.11", {"elem": {"val": "10.0.0.12/31"}}],
    ],
)
def test_neighbours_are_the_same_however_the_kernel_joins_them(elem: list[Any]) -> None:
    table = [{"set": {"name": "fullmesh-peers4", "elem": elem}}]
    assert firewalld.list_set_elements(table, "fullmesh-peers4") == ["10.0.0.11", "10.0.0.12/31"]


def test_networks_of_controllers_are_compared_as_networks() -> None:
    networks = ["10.9.0.0/16", "198.51.100.7", "10.9.1.1", "fd00:9::/32"]
    want = {**WANT, "controllers": networks}
    assert firewalld.find_ruleset_faults(kernel(), want) == [
        "set fullmesh-controllers4 holds 198.51.100.7",
        "set fullmesh-controllers6 holds nothing",
    ]
    table = [item for item in kernel() if "controllers4" not in str(item.get("set"))]
    table += [
        {
            "set": {
                "name": "fullmesh-controllers4",
                "elem": [{"prefix": {"addr": "10.9.0.0", "len": 16}}, "198.51.100.7"],
            }
        },
        {
            "set": {
                "name": "fullmesh-controllers6",
                "elem": [{"prefix": {"addr": "fd00:9::", "len": 32}}],
            }
        },
    ]
    assert firewalld.find_ruleset_faults(table, want) == []


def answer(table: list[dict[str, Any]]) -> Callable[[list[str]], tuple[int, str]]:
    return lambda argv: (0, json.dumps({"nftables": table})) if argv[0] == "nft" else (1, "")


def print_of(root: Path, table: list[dict[str, Any]]) -> dict[str, str]:
    return firewalld.fingerprint_zones(["fullmesh"], answer(table), str(root))["fullmesh"]


def test_a_fingerprint_ignores_handles_and_order_and_other_zones(root: Path) -> None:
    table = kernel()
    before = print_of(root, table)
    table.reverse()
    for item in table:
        item.get("rule", {})["handle"] = 99
    assert (
        print_of(root, [*table, rule("filter_IN_work_allow", dport(1), {"accept": None})]) == before
    )


@pytest.mark.parametrize(
    "gone", ["29500", "10.0.0.12", "policy_fullmesh", "@fullmesh-peers6", "POLICIES_pre"]
)
def test_a_fingerprint_detects_missing_runtime_rules(root: Path, gone: str) -> None:
    assert print_of(root, without(gone))["runtime"] != print_of(root, kernel())["runtime"]


def test_a_fingerprint_sees_files_and_their_ipsets(root: Path) -> None:
    for path, text in rendered().items():
        put(root, path, text)
    before = print_of(root, kernel())
    put(root, "/etc/firewalld/ipsets/fullmesh-peers4.xml", "<ipset/>")
    after = print_of(root, kernel())
    assert after["permanent"] != before["permanent"]
    assert after["runtime"] == before["runtime"]


def test_without_nftables_the_daemon_is_asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firewalld, "query_libnftables", lambda: "")

    def run(argv: list[str]) -> tuple[int, str]:
        return (1, "") if argv[0] == "nft" else (0, ZONES)

    first = firewalld.fingerprint_zones(["public", "work"], run, str(root))
    assert first["public"]["runtime"] != first["work"]["runtime"]
