"""The peers' firewall: compare the kernel's rules with the files, and their fingerprint."""

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
    build_job_rule,
    build_jump,
    build_rule,
    build_ruleset,
    build_ruleset_of_zone,
    build_ruleset_without,
    match_source,
    match_tcp_port,
    render_files,
    write_file,
)


def test_rules_that_match_the_files_have_no_faults() -> None:
    assert firewalld.find_ruleset_faults(build_ruleset(), WANT) == []


@pytest.mark.parametrize(
    ("removed", "fault"),
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
def test_each_missing_rule_is_reported(removed: str, fault: str) -> None:
    assert build_ruleset_without(removed) != build_ruleset()
    assert any(
        text.startswith(fault)
        for text in firewalld.find_ruleset_faults(build_ruleset_without(removed), WANT)
    )


def test_service_ports_are_checked_in_the_kernel() -> None:
    want = WANT | {"controller_ports": ["8443/tcp"], "public_ports": ["8000/tcp"]}
    ssh, public = "filter_IN_policy_fullmesh-ssh", "filter_IN_policy_fullmesh-all"
    served = [
        *build_ruleset(),
        build_rule(
            ssh + "_allow", match_source("fullmesh-controllers4"), match_tcp_port(8443), ACCEPT
        ),
        build_jump("filter_INPUT_POLICIES_pre", public),
        build_rule(public + "_allow", match_tcp_port(8000), ACCEPT),
    ]
    assert firewalld.find_ruleset_faults(served, want) == []
    assert firewalld.find_ruleset_faults(build_ruleset(), want) == [
        "controllers do not reach 8443/tcp",
        "8000/tcp is closed to others",
    ]
    assert firewalld.find_ruleset_faults(served, WANT) == [
        "controllers reach 8443/tcp, which Fullmesh did not open",
        "8000/tcp is open to everybody",
    ]


def test_the_tunnel_port_is_checked_in_the_kernel() -> None:
    want = WANT | {"tunnel_peers": ["192.0.2.11"], "tunnel_ports": ["8000/tcp"]}
    policy = "filter_IN_policy_fullmesh-tun"
    reached = [*build_ruleset(), build_jump("filter_INPUT_POLICIES_pre", policy)]
    rule = build_rule(
        policy + "_allow", match_source("fullmesh-tunnel4"), match_tcp_port(8000), ACCEPT
    )
    no_set = "set fullmesh-tunnel4 holds nothing"
    assert firewalld.find_ruleset_faults([*reached, rule], want) == [no_set]
    assert firewalld.find_ruleset_faults(reached, want) == [
        no_set,
        "8000/tcp is closed to fullmesh-tunnel4",
    ]
    assert firewalld.find_ruleset_faults([*reached, rule], WANT) == [
        "8000/tcp is open to fullmesh-tunnel4"
    ]
    open_to_all = build_rule(policy + "_allow", match_tcp_port(8000), ACCEPT)
    assert "8000/tcp is open to everybody" in firewalld.find_ruleset_faults(
        [*reached, rule, open_to_all], want
    )


def test_peers_are_bound_in_mode_peers_only() -> None:
    """A node of an earlier version has them bound, and is migrated."""
    want = WANT | {"mode": "peers_only"}
    assert firewalld.find_ruleset_faults(build_ruleset_of_zone(), want) == []
    assert firewalld.find_ruleset_faults(build_ruleset(), want) == [
        "no rule sends set fullmesh-peers4 to zone fullmesh",
        "no rule sends set fullmesh-peers6 to zone fullmesh",
    ]
    assert firewalld.find_ruleset_faults(build_ruleset_of_zone(), WANT) == [
        "set fullmesh-peers4 is sent to zone fullmesh",
        "set fullmesh-peers6 is sent to zone fullmesh",
    ]


def test_rule_that_opens_a_whole_protocol_is_reported() -> None:
    match = {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "tcp"}}
    assert firewalld.find_ruleset_faults([*build_ruleset(), build_job_rule(match)], WANT) == [
        "a rule opens a whole protocol"
    ]
    trusted = WANT | {"mode": "peers_trusted"}
    assert (
        "the peers' policy does not accept everything over IPv4"
        in firewalld.find_ruleset_faults([*build_ruleset(), build_job_rule(match)], trusted)
    )


def test_extra_port_and_flushed_ruleset_are_reported() -> None:
    assert firewalld.find_ruleset_faults(
        [*build_ruleset(), build_job_rule(match_tcp_port(8443))], WANT
    ) == ["8443/tcp is open, but Fullmesh did not open it"]
    everybody = build_rule(JOB + "_allow", match_tcp_port(8443), ACCEPT)
    assert firewalld.find_ruleset_faults([*build_ruleset(), everybody], WANT) == [
        "8443/tcp is open to everybody"
    ]
    assert firewalld.find_ruleset_faults([], WANT) == ["the kernel has no table of firewalld"]


def test_trusted_requires_an_unconditional_rule_for_peers() -> None:
    want = WANT | {"mode": "peers_trusted"}
    table = [item for item in build_ruleset() if "fullmesh-job_allow" not in str(item.get("rule"))]
    assert firewalld.find_ruleset_faults(table, want) == [
        "the peers' policy does not accept everything over IPv4",
        "the peers' policy does not accept everything over IPv6",
    ]
    table += [build_jump(JOB, JOB + "_allow"), build_job_rule(), build_job_rule(family="6")]
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
def test_joined_addresses_of_the_kernel_compare_equal(elem: list[Any]) -> None:
    table = [{"set": {"name": "fullmesh-peers4", "elem": elem}}]
    assert firewalld.list_set_elements(table, "fullmesh-peers4") == ["10.0.0.11", "10.0.0.12/31"]


def test_networks_of_controllers_are_compared_as_networks() -> None:
    networks = ["10.9.0.0/16", "198.51.100.7", "10.9.1.1", "fd00:9::/32"]
    want = {**WANT, "controllers": networks}
    assert firewalld.find_ruleset_faults(build_ruleset(), want) == [
        "set fullmesh-controllers4 holds 198.51.100.7",
        "set fullmesh-controllers6 holds nothing",
    ]
    table = [item for item in build_ruleset() if "controllers4" not in str(item.get("set"))]
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


def answer_nft(table: list[dict[str, Any]]) -> Callable[[list[str]], tuple[int, str]]:
    return lambda argv: (0, json.dumps({"nftables": table})) if argv[0] == "nft" else (1, "")


def compute_fingerprint(root: Path, table: list[dict[str, Any]]) -> dict[str, str]:
    return firewalld.fingerprint_zones(["fullmesh"], answer_nft(table), str(root))["fullmesh"]


def test_fingerprint_ignores_handles_order_and_other_zones(root: Path) -> None:
    table = build_ruleset()
    before = compute_fingerprint(root, table)
    table.reverse()
    for item in table:
        item.get("rule", {})["handle"] = 99
    assert (
        compute_fingerprint(
            root, [*table, build_rule("filter_IN_work_allow", match_tcp_port(1), {"accept": None})]
        )
        == before
    )


@pytest.mark.parametrize(
    "removed", ["29500", "10.0.0.12", "policy_fullmesh", "@fullmesh-peers6", "POLICIES_pre"]
)
def test_fingerprint_detects_missing_runtime_rules(root: Path, removed: str) -> None:
    assert (
        compute_fingerprint(root, build_ruleset_without(removed))["runtime"]
        != compute_fingerprint(root, build_ruleset())["runtime"]
    )


def test_fingerprint_covers_files_and_their_ipsets(root: Path) -> None:
    for path, text in render_files().items():
        write_file(root, path, text)
    before = compute_fingerprint(root, build_ruleset())
    write_file(root, "/etc/firewalld/ipsets/fullmesh-peers4.xml", "<ipset/>")
    after = compute_fingerprint(root, build_ruleset())
    assert after["permanent"] != before["permanent"]
    assert after["runtime"] == before["runtime"]


def test_without_nftables_the_daemon_is_queried(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firewalld, "query_libnftables", lambda: "")

    def run(argv: list[str]) -> tuple[int, str]:
        return (1, "") if argv[0] == "nft" else (0, ZONES)

    first = firewalld.fingerprint_zones(["public", "work"], run, str(root))
    assert first["public"]["runtime"] != first["work"]["runtime"]
