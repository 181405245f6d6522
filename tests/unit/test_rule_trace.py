"""The kernel's trace of packets that rules drop, from the output of a real nft to the finding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.probe import rule_trace
from causes.changes import (
    EL_ADDRESS,
    add_rule,
    block_links,
    get_node,
    get_survey,
    match_port,
    replace_firewalld,
)
from record_files import RECORDED, read_record
from records import ABOUT, EL1, UBUNTU1, World, diagnose_answers, load_world

from fullmesh.diagnose import judge, shape, traces
from fullmesh.observed.ladder_arguments import LADDER_TRACE

# nft 1.0.6 on a lab node that has firewalld as well: connections of its own to five ports, each stopped otherwise
TOLD = read_record(RECORDED / "nft-trace.txt")
ME, LOCAL = "127.0.0.1", "::1"
# matches bytes of the packet, which no paper has: it may stop what comes
BYTES = {
    "match": {"op": "<", "left": {"payload": {"base": "nh", "offset": 64, "len": 8}}, "right": 200}
}


def test_output_of_nft_is_parsed() -> None:
    found = {
        (one["table"], one["chain"], one["handle"], one["source"], one["dport"]): one["rule"]
        for one in rule_trace.parse_trace(TOLD)
        if one["dport"] in (50000, 50001, 50002, 50003)
    }
    assert found == {
        (
            "hand",
            "deeper",
            7,
            ME,
            50000,
        ): 'meta length 40-100 counter packets 0 bytes 0 drop comment "an experiment of last year"',
        ("hand", "in", 5, ME, 50001): 'iifname "lo" tcp dport 50001 reject with tcp reset',
        (
            "hand",
            "in",
            6,
            ME,
            50003,
        ): 'iifname "lo" tcp dport 50003 reject with icmpx admin-prohibited comment "with'
        ' # signs (verdict drop)"',
        ("shut", "o", 0, LOCAL, 50002): "policy drop",
    }
    # and an answer, of whom the listener's port is the source's
    (back,) = (one for one in rule_trace.parse_trace(TOLD) if one["sport"] == 50004)
    assert (back["chain"], back["handle"], back["target"]) == ("out", 8, ME)
    assert len(rule_trace.parse_trace(TOLD)) == 5


@pytest.mark.parametrize(
    "text",
    ["", "trace id 1\n", TOLD[:500], "trace id a inet t c rule drop # handle 7 (verdict drop)\n"],
)
def test_an_incomplete_trace_is_ignored(text: str) -> None:
    assert rule_trace.parse_trace(text) == []


def test_the_trace_table_decides_nothing_and_is_removed() -> None:
    ends: Any = [
        {"address": "192.0.2.1", "mine": [50001], "theirs": [29500, 50001]},
        {"address": "fd00::1", "mine": [], "theirs": [50002]},
    ]
    first, *rest = rule_trace.build_trace_commands(ends, "ours_17")
    assert first == "add table inet ours_17 { flags owner; }"
    assert all(" inet ours_17 " in line for line in rest)
    assert len([line for line in rest if "policy accept" in line]) == 2
    rules = [line for line in rest if line.startswith("add rule")]
    assert len(rules) == 8
    assert all(line.endswith("meta nftrace set 1") for line in rules)
    assert any("ip6 daddr fd00::1 tcp sport { 50002 }" in line for line in rules)
    assert any("ip saddr 192.0.2.1 tcp dport { 29500, 50001 }" in line for line in rules)


ASKED: dict[str, Any] = {
    "node": "a",
    "address": "192.0.2.1",
    "token": "",
    "payload": 0,
    "seconds": 0.1,
    "targets": [],
    "ends": [],
}


def test_a_node_that_cannot_trace_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(ASKED) == set(LADDER_TRACE)
    monkeypatch.setattr(rule_trace.os, "geteuid", lambda: 1000)
    assert rule_trace.trace_rules(**ASKED) == {"traced": [], "why": "not root"}
    monkeypatch.setattr(rule_trace.os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "nft" in rule_trace.trace_rules(**ASKED)["why"]
    for name, text in (("nft", "#!/bin/sh\nexit 1\n"),):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    assert rule_trace.trace_rules(**ASKED)["why"]


def add_second_rule(held: World) -> None:
    """Two rules that may stop what comes; which of them does no paper says."""
    replace_firewalld(held)
    add_rule("decoy", match_port(1024, 65535), BYTES, {"drop": None}, prio=-20)(held)
    add_rule("culprit", match_port(1024, 65535), BYTES, {"drop": None})(held)
    block_links()(held)


def told_of(held: World, table: str, **more: Any) -> None:
    """ubuntu1's kernel has reported the rule."""
    (record,) = [
        one for one in get_node(held, EL1)["links"]["links"] if one["verdict"] == "dropped"
    ][:1]
    one = {
        "family": "inet",
        "table": table,
        "chain": "c",
        "handle": 7,
        "source": EL_ADDRESS,
        "target": held["plan"]["nodes"][UBUNTU1]["address"],
        "sport": 50123,
        "dport": record["port"],
        "rule": "tcp dport 1024-65535 @nh,64,8 < 0xc8 drop",
    }
    get_node(held, UBUNTU1)["traced"] = {"traced": [{**one, **more}], "why": ""}  # type: ignore[typeddict-item]


def test_the_rule_named_by_the_kernel_outranks_candidates() -> None:
    held = load_world("healthy")
    add_second_rule(held)
    (guessed,) = diagnose_answers(held)["findings"]
    assert "decoy" in guessed["seen"]
    told_of(held, "culprit")
    (found,) = diagnose_answers(held)["findings"]
    assert found["code"] == guessed["code"]
    assert "inet culprit chain c" in found["seen"]
    assert "@nh,64,8 < 200 drop" in found["seen"]
    assert found["fix"].startswith("on ubuntu1: nft delete rule inet culprit c handle 7")


def test_a_rule_by_socket_owner_may_not_match_other_accounts() -> None:
    held = load_world("healthy")
    add_second_rule(held)
    told_of(held, "late", handle=99, rule="meta skuid 0 ip daddr 192.0.2.1 ct state new drop")
    (found,) = diagnose_answers(held)["findings"]
    assert "A rule that does this to some packets is" in found["cause"]


def test_an_omitted_rule_is_quoted_as_nft_prints_it() -> None:
    held = load_world("healthy")
    add_second_rule(held)
    told_of(held, "late", handle=99, rule="tcp dport 50000 drop")
    (found,) = diagnose_answers(held)["findings"]
    assert "inet late chain c: tcp dport 50000 drop" in found["seen"]


def test_traces_of_other_packets_are_no_evidence() -> None:
    held = load_world("healthy")
    add_second_rule(held)
    told_of(held, "culprit", source="192.0.2.77")
    (found,) = diagnose_answers(held)["findings"]
    assert "decoy" in found["seen"]


@pytest.mark.parametrize(
    "said", [{"traced": [], "why": "no nft here"}, {"failed": True, "msg": "no nft here"}]
)
def test_a_failed_trace_is_reported(said: Any) -> None:
    told = shape.sanitize_node(
        {"node": load_world("healthy")["nodes"][EL1]["node"], "traced": said}, {EL1}
    )
    missed = told["node"]["facts"]["survey"]["unknown"]
    assert {"what": "which rule stops packets", "why": "no nft here"} in missed
    assert "traced" not in told


def look_of(held: World) -> Any:
    return judge.build_evidence(held["plan"], held["nodes"], ABOUT)


def test_both_ends_are_traced_for_unexplained_losses() -> None:
    held = load_world("healthy")
    add_second_rule(held)
    wanted = traces.build_trace_requests(look_of(held))
    assert set(wanted) == {EL1, UBUNTU1}
    assert all(set(one) < set(LADDER_TRACE) for one in wanted.values())
    ports = sorted({target["port"] for target in wanted[EL1]["targets"]})
    assert len(ports) == 2
    assert wanted[EL1]["ends"] == [
        {"address": held["plan"]["nodes"][UBUNTU1]["address"], "mine": [], "theirs": ports}
    ]
    assert wanted[UBUNTU1]["targets"] == []
    assert wanted[UBUNTU1]["ends"] == [{"address": EL_ADDRESS, "mine": ports, "theirs": []}]


def test_nothing_is_traced_without_an_unexplained_block() -> None:
    assert traces.build_trace_requests(look_of(load_world("healthy"))) == {}
    sure = load_world("healthy")
    replace_firewalld(sure)
    add_rule("wall", match_port(50000, 54095), {"drop": None})(sure)
    block_links()(sure)
    assert traces.build_trace_requests(look_of(sure)) == {}
    bare = load_world("healthy")
    for name in (EL1, UBUNTU1):
        get_survey(bare, name)["nft"] = {"chains": [], "rules": [], "sets": [], "cut": 0}
    block_links()(bare)
    assert traces.build_trace_requests(look_of(bare)) == {}
    unprivileged = load_world("healthy")
    add_second_rule(unprivileged)
    for name in (EL1, UBUNTU1):
        get_survey(unprivileged, name)["root"] = False
    assert traces.build_trace_requests(look_of(unprivileged)) == {}
