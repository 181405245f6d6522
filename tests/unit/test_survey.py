"""The survey of a node: parsers, limits, missing tools, missing rights."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from ansible.module_utils.fullmesh import detach
from ansible.module_utils.fullmesh.facts import sockets
from ansible.module_utils.fullmesh.probe import bound, pairs
from ansible.module_utils.fullmesh.survey import filters, job, job_start, names, net, node
from hypothesis import given
from hypothesis import strategies as st

from fullmesh import contract
from fullmesh.observed.ladder import LadderNodeParams
from fullmesh.observed.survey import NftSurvey, NodeSurvey, ParallelLookups

# `ip -j neigh show nud all`, iproute2 6.1; without "nud all" it leaves out what is NOARP.
NEIGHBOURS = """[{"dst":"10.9.9.4","dev":"d0","lladdr":"02:00:00:00:00:04","state":["REACHABLE"]},\
{"dst":"10.9.9.5","dev":"d0","lladdr":"02:00:00:00:00:05","router":null,"state":["STALE"]},\
{"dst":"10.9.9.6","dev":"d0"},\
{"dst":"10.9.9.2","dev":"d0","lladdr":"02:00:00:00:00:09","state":["NOARP"]},\
{"dst":"10.9.9.3","dev":"d0","lladdr":"02:00:00:00:00:09","state":["PERMANENT"]},\
{"dst":"ff02::16","dev":"d0","lladdr":"33:33:00:00:00:16","state":["NOARP"]}]
"""


def test_a_static_neighbour_entry_is_read_in_any_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        net, "run_ip", lambda *words: NEIGHBOURS if words[-2:] == ("nud", "all") else ""
    )
    found = net.survey_neighbours(["10.9.9.2", "10.9.9.3", "10.9.9.4"])
    assert {one: held["by_hand"] for one, held in found["entries"].items()} == {
        "10.9.9.2": True,
        "10.9.9.3": True,
        "10.9.9.4": False,
    }
    told = {one: held.get("nud") for one, held in found["entries"].items()}
    assert told == {"10.9.9.2": "NOARP", "10.9.9.3": "PERMANENT", "10.9.9.4": None}
    assert found["count"] == 3  # multicast addresses, and what was never asked, fill no table


WANT: LadderNodeParams = {
    "run": "run1",
    "token": "",
    "node": "here",
    "address": "127.0.0.1",
    "interface": "lo",
    "hosts": [{"address": "127.0.0.1", "names": []}],
    "python": "python3",
    "samples": 0,
    "named": [],
    "outside": False,
    "allowed": [],
    "survey": True,
    "beside": False,
    "as_job": False,
    "job_user": "",
    "range": [],
    "assumed": False,
    "spread": 0,
    "listen": False,
    "nccl": False,
    "lifetime": 1,
}


def test_a_complete_survey_is_plain_data_with_its_gaps() -> None:
    found = node.end_survey(node.begin_survey(WANT), WANT)
    assert json.loads(json.dumps(found))["root"] is (os.geteuid() == 0)
    assert found["shm"]["size"] > 0
    assert {card["name"] for card in found["interfaces"]} >= {"lo"}
    assert all(one["what"] and one["why"] for one in found["unknown"])


def test_without_tools_nothing_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(filters, "run_tool", lambda _argv: (127, ""))
    monkeypatch.setattr(filters, "read_ruleset_by_library", lambda: "")
    monkeypatch.setattr(job, "run_tool", lambda _argv: (127, ""))
    found = node.end_survey(node.begin_survey(WANT), WANT)
    assert "nft" not in found
    assert contract.convert_value(NodeSurvey, json.loads(json.dumps(found)))
    assert any(one["what"] == "nft" for one in found["unknown"])


def test_names_and_the_login_run_parallel_to_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not in the survey, and the last call waits for their answers."""
    want = {**WANT, "as_job": True}
    monkeypatch.setattr(job_start, "survey_job_start", lambda _want: {"account": "jobs"})
    base = str(tmp_path)
    detach.make_run_directory("run1", base)
    go = tmp_path / "go"

    def slow(lookups: Callable[[], ParallelLookups]) -> ParallelLookups:
        while not go.exists():
            time.sleep(0.01)
        return lookups()

    def beside(lookups: Callable[[], ParallelLookups]) -> None:
        names.start_name_lookups("run1", base, lambda: slow(lookups), want)

    found = node.end_survey(node.begin_survey(want, beside), want)
    late = {"reverse", "own_answers", "master_answers", "job_start"}
    assert not late & set(found)
    taken: list[dict[str, Any]] = []
    waiter = threading.Thread(target=lambda: taken.append(names.take_name_answers("run1", base)))
    waiter.start()
    waiter.join(0.3)
    assert waiter.is_alive()
    go.touch()
    waiter.join(30)
    [answers] = taken
    assert answers["names"]["hostname"] == socket.gethostname()
    assert set(answers["survey"]) == {*late, "unknown"}


def test_a_lookup_that_dies_delays_nothing(tmp_path: Path) -> None:
    base = str(tmp_path)
    detach.make_run_directory("run1", base)
    names.start_name_lookups("run1", base, lambda: os._exit(1), {**WANT, "hosts": []})
    assert names.take_name_answers("run1", base) is None
    assert names.take_name_answers("none", base) is None


def test_a_reader_that_fails_becomes_an_unknown() -> None:
    look = node.SurveyCollector()

    def broken() -> dict[str, Any]:
        raise ValueError("no such thing")

    look.ask("kernel_log", broken, [])
    assert look.found["kernel_log"] == []
    assert look.unknown == [{"what": "kernel log", "why": "ValueError: no such thing"}]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("MASTER_ADDR=10.0.0.1\n", {"MASTER_ADDR": "10.0.0.1"}),
        ("export NCCL_SOCKET_IFNAME='=eth1' # ours\n", {"NCCL_SOCKET_IFNAME": "=eth1"}),
        ("# MASTER_PORT=1\nHOME=/root\n", {}),
        ("https_proxy=http://user:secret@p:1\n", {"https_proxy": "http://...@p:1"}),
        ("RANK=3; true\n", {"RANK": "3"}),
        ("=\n\x00WORLD_SIZE\nWORLD_SIZE=", {"WORLD_SIZE": ""}),
    ],
)
def test_variables_are_read_and_secrets_are_not(text: str, found: dict[str, str]) -> None:
    assert job.parse_assignments(text) == found


def test_systemd_defaults_are_read() -> None:
    text = "[Manager]\nDefaultEnvironment=\"NCCL_DEBUG=INFO\" 'GLOO_SOCKET_IFNAME=eth9' LANG=C\n"
    assert job.parse_systemd_defaults(text) == {"NCCL_DEBUG": "INFO", "GLOO_SOCKET_IFNAME": "eth9"}


@given(st.text(max_size=200))
def test_no_file_of_variables_is_too_odd(text: str) -> None:
    assert all(len(value) <= job.VALUE_MOST for value in job.parse_assignments(text).values())
    job.parse_systemd_defaults("DefaultEnvironment=" + text)


def test_the_kernel_log_is_read_for_the_last_minutes() -> None:
    lines = [
        "6,1,1000000,-;neighbour: arp_cache: neighbor table overflow!",
        "4,2,990000000,-;nf_conntrack: nf_conntrack: table full, dropping packet",
        "3,3,995000000,-;Out of memory: Killed process 77 (python3)",
        "6,4,995000000,-;usb 1-1: new device",
        "garbage",
    ]
    found = job.parse_kernel_log(lines, 1000.0)
    assert [event["kind"] for event in found] == ["conntrack", "out of memory"]
    assert [event["age"] for event in found] == [10.0, 5.0]


def test_denials_are_read_for_the_last_minutes() -> None:
    line = 'type=AVC msg=audit({}.1:7): avc:  denied  {{ name_bind }} for  pid=9 comm="python3"'
    text = "\n".join([line.format(1000), line.format(99990), "type=SYSCALL msg=audit(99990.1:7)"])
    (found,) = job.parse_audit_denials(text, 100000.0)
    assert (found["command"], found["age"]) == ("python3", 10.0)


def test_counters_come_in_pairs_of_lines() -> None:
    text = "TcpExt: SyncookiesSent IPReversePathFilter\nTcpExt: 0 7\nIpExt: InNoRoutes\nIpExt: 3\n"
    assert net.parse_counters(text) == {
        "TcpExt.SyncookiesSent": 0,
        "TcpExt.IPReversePathFilter": 7,
        "IpExt.InNoRoutes": 3,
    }


def chain(name: str, **more: Any) -> dict[str, Any]:
    return {"chain": {"family": "inet", "table": "t", "name": name, "handle": 1, **more}}


def rule(where: str, *expr: dict[str, Any]) -> dict[str, Any]:
    return {
        "rule": {"family": "inet", "table": "t", "chain": where, "handle": 2, "expr": list(expr)}
    }


def test_only_chains_that_concern_this_host_are_kept() -> None:
    held = [
        {"metainfo": {}},
        chain("in", type="filter", hook="input", prio=0, policy="accept"),
        chain("fwd", type="filter", hook="forward", prio=0, policy="drop"),
        chain("nat", type="nat", hook="prerouting", prio=0),
        chain("deep"),
        chain("published"),
        chain("lost"),
        rule("nat", {"jump": {"target": "published"}}),
        rule("published", {"redirect": {"port": 1}}),
        rule("in", {"jump": {"target": "deep"}}),
        rule("deep", {"drop": None}),
        rule("fwd", {"drop": None}),
        {"set": {"family": "inet", "table": "t", "name": "s", "elem": ["10.0.0.1"]}},
    ]
    found = filters.parse_ruleset(json.dumps({"nftables": held}))
    assert {c["name"] for c in found["chains"]} == {"in", "deep", "nat", "published"}
    assert [r["chain"] for r in found["rules"]] == ["in", "deep", "nat", "published"]
    assert found["sets"][0]["elem"] == ["10.0.0.1"]
    assert found["cut"] == 0


def test_chains_with_jumps_are_kept_completely_or_omitted() -> None:
    """A host with Kubernetes has tens of thousands of them; those that shut a port are what counts first."""
    held = [
        chain("in", type="filter", hook="input", prio=0, policy="accept"),
        chain("nat", type="nat", hook="prerouting", prio=0),
        *[rule("nat", {"redirect": {"port": n}}) for n in range(filters.RULES_MOST)],
        rule("in", {"drop": None}),
    ]
    found = filters.parse_ruleset(json.dumps({"nftables": held}))
    assert [c["name"] for c in found["chains"]] == ["in"]
    assert [r["chain"] for r in found["rules"]] == ["in"]
    assert found["cut"] == filters.RULES_MOST


def test_both_sides_of_a_border_are_tried() -> None:
    rule_ = {"expr": [{"match": {"right": {"range": [52000, 60000]}}}]}
    nft: NftSurvey = {"chains": [], "rules": [rule_], "sets": [], "cut": 0}
    assert filters.find_port_borders(cast("NodeSurvey", {"nft": nft}), 50000, 54095) == [
        51999,
        52000,
        52001,
    ]
    assert filters.find_port_borders(None, 50000, 54095) == []


@given(
    st.integers(1024, 60000),
    st.integers(0, 5000),
    st.integers(0, 64),
    st.lists(st.integers(0, 65535), max_size=5),
)
def test_a_blocked_range_is_found(first: int, width: int, count: int, borders: list[int]) -> None:
    last = min(65535, first + width)
    ports = bound.choose_spread_ports(first, last, count, borders)
    assert all(first <= port <= last for port in ports)
    if count > 1:
        assert {first, last} <= set(ports)
        gaps = [b - a for a, b in zip(ports, ports[1:])]
        assert max(gaps, default=0) <= (last - first) / (count - 1) + 1


def test_a_folder_of_another_account_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "base").symlink_to(tmp_path / "real")
    with pytest.raises(ValueError, match="another account"):
        detach.make_run_directory("r1", str(tmp_path / "base"))


def test_needless_repetitions_are_no_loss() -> None:
    assert sockets.count_lost_segments({"total_retrans": 5, "dsack_dups": 3}) == 2
    assert sockets.count_lost_segments({"total_retrans": 1, "dsack_dups": 3}) == 0


def test_a_listener_that_never_answers_has_no_rate() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        target = {
            "node": "n",
            "address": "127.0.0.1",
            "port": sock.getsockname()[1],
            "kind": "sample",
        }
        me = {"node": "m", "address": "127.0.0.1", "token": "t", "payload": 1}
        found = pairs.measure_rate(target, me, 1000, 0.3)
    assert (found["complete"], found["bytes"]) == (False, 0)


@pytest.mark.parametrize("late", [0.0, 0.3, 4.0])
def test_a_name_server_without_an_answer_is_reported_at_any_timeout(
    monkeypatch: pytest.MonkeyPatch, late: float
) -> None:
    """On a busy machine the lookups begin late, and may not have come to their own end when the survey has to go on."""
    over = threading.Event()
    monkeypatch.setattr(net, "look_up_reverse_name", lambda _peer: over.wait(30))
    monkeypatch.setattr(net, "look_up_addresses", lambda _name: [])
    real = names.look_up_reverse_names

    def begun_late(peers: list[str]) -> Any:
        over.wait(late)
        return real(peers)

    monkeypatch.setattr(names, "look_up_reverse_names", begun_late)
    try:
        found = node.collect_lookups(names.list_lookups(["192.0.2.12"], "m"))
    finally:
        over.set()
    assert found["reverse"] == {"192.0.2.12": None}


# --- settings and rules of others -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("LIVE", {}),
        ("LIVE ", {}),
        ("1 2 3", {"net.ipv4.tcp_rmem": {"written": "1 2 3", "now": "LIVE"}}),
        (None, {}),
    ],
)
def test_settings_that_differ_from_the_manifest(
    tmp_path: Path, written: str | None, found: dict[str, Any]
) -> None:
    live = " ".join(Path("/proc/sys/net/ipv4/tcp_rmem").read_text().split())
    held = {"net.ipv4.tcp_rmem": written and written.replace("LIVE", live), "no.such.key": "1"}
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"state": {"sysctl": held}}))
    expected = json.loads(json.dumps(found).replace("LIVE", live))
    assert net.survey_changed_sysctls(str(manifest)) == expected


def test_without_a_manifest_no_setting_differs(tmp_path: Path) -> None:
    assert net.survey_changed_sysctls(str(tmp_path / "none")) == {}


def test_only_rules_of_old_tables_in_use_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = "# Generated\n*nat\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -j MASQUERADE\nCOMMIT\n"
    asked = []

    def run(argv: list[str]) -> tuple[int, str]:
        asked.append(argv)
        return 0, saved

    monkeypatch.setattr(filters.os, "geteuid", lambda: 0)
    monkeypatch.setattr(filters, "run_tool", run)
    monkeypatch.setattr(
        filters, "read_kernel_file", lambda path: "nat" if path.endswith("/ip_tables_names") else ""
    )
    assert filters.survey_legacy_rules() == {"ip": saved.split("\n")[1:4]}
    assert asked == [["iptables-legacy-save"]]


# --- places are shared ---------------------------------------------------------------------------------


def test_no_account_fills_all_places() -> None:
    stranger = [(65534, f"s{number}") for number in range(300)]
    entries = [*stranger, (0, "sshd"), (1001, "a"), (1001, "b"), (1999, "job"), (1002, "c")]
    kept, left = net.select_fair_share(entries, 6, {0, 1999})
    assert kept == ["s0", "s1", "sshd", "a", "job", "c"]
    assert left == len(entries) - 6
    assert net.select_fair_share(entries[-3:], 6, {0}) == (["b", "job", "c"], 0)
    assert net.describe_left_out(left, "ranks") == "299 more ranks were left out"
    assert net.describe_left_out(0, "ranks") == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of other accounts")
def test_ranks_of_another_account_do_not_hide_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rank = {"RANK": "0", "WORLD_SIZE": "9", "MASTER_ADDR": "a", "PATH": "/usr/bin:/bin"}
    monkeypatch.setattr(job, "JOBS_MOST", 4)
    with contextlib.ExitStack() as running:
        started = [
            running.enter_context(subprocess.Popen(["sleep", "60"], env=rank, user=uid))
            for uid in (54321,) * 6 + (54322, 0)
        ]
        monkeypatch.setattr("os.listdir", lambda _path: [str(one.pid) for one in started])
        found, why = job.survey_jobs()
        for one in started:
            one.kill()
    assert {started[-1].pid, started[-2].pid} <= {one["pid"] for one in found}
    assert len(found) == 4
    assert why == "4 more ranks were left out"


@pytest.mark.parametrize("blank", [" ", "\t"])
def test_a_value_of_blanks_is_cut_before_it_is_split(blank: str) -> None:
    """``\\s+#`` tried every blank as a beginning: 64,000 took 4 s, and every process has an environment."""
    value = blank * 64_000 + "b"
    assert job.parse_assignments("NCCL_X=a" + value) == {"NCCL_X": "a"}
    assert job.strip_quotes("a" + blank * 9 + "# b; c") == "a"
    assert job.strip_quotes("'" + "x" * 900 + "' # y") == "x" * 900
