"""The checks of the verification: break one thing in a healthy cluster, and expect exactly its code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ladder_samples import NAMES, healthy, plan
from records import EL1, UBUNTU1
from records import verify_answers as judged
from verify_changes import (
    WRONG,
    block,
    facts,
    get_step_report,
    hold_port,
    links,
    nccl,
    no_sample,
    open_outside,
    reach_from_controller,
    set_load,
    stop_rank,
)

from fullmesh.diagnose import verification
from fullmesh.verify import blocked, probe_wants, rank_ends
from fullmesh.verify.model import CHECKS

UBUNTU2 = NAMES[2]


def test_a_healthy_cluster_has_no_findings() -> None:
    found = judged(healthy())
    assert (found["verdict"], found["exit_code"], found["findings"]) == ("ok", 0, [])
    assert [r["status"] for r in found["rungs"]] == ["passed"] * 9
    assert len(found["links"]) == 6
    assert found["collectives"]["bus_gbit_s"] == 5.5


@pytest.mark.parametrize(
    ("taps", "culprit", "words"),
    [
        ("none", EL1, "never leave el1"),
        ("left", UBUNTU1, "never arrive at ubuntu1"),
        ("asked", UBUNTU1, "ubuntu1, so ubuntu1 itself blocks them"),
        ("answered", UBUNTU1, "answers of ubuntu1 never arrive at el1"),
        ("back", EL1, "el1 itself blocks them"),
    ],
)
def test_the_packet_taps_show_which_node_drops(taps: str, culprit: str, words: str) -> None:
    seen = healthy()
    block(seen, EL1, UBUNTU1, "dropped", taps=taps)
    finding = judged(seen)["findings"][0]
    assert words in finding["cause"]
    assert finding["node"] == culprit
    assert {finding["node"], finding["peer"]} == {EL1, UBUNTU1}
    assert finding["direction"] == "el1 -> ubuntu1"


def test_a_firewall_is_not_blamed_for_a_missing_route() -> None:
    seen = healthy()
    block(seen, EL1, UBUNTU1, "dropped")
    block(seen, UBUNTU1, EL1, "no_route", taps="none")
    (finding,) = judged(seen)["findings"]
    assert finding["code"] == "VC-204"
    causes = [finding["cause"], *(f["cause"] for f in finding["follows"])]
    assert any("no way to answer" in cause for cause in causes)
    assert not any("firewall" in cause for cause in causes)


def test_without_packet_taps_no_node_is_blamed() -> None:
    seen = healthy()
    block(seen, EL1, UBUNTU1, "dropped")
    seen.nodes[UBUNTU1]["node"]["tapped"] = False
    assert ";" not in judged(seen)["findings"][0]["cause"]


def test_one_node_that_blocks_all_others_is_one_finding() -> None:
    seen = healthy()
    block(seen, EL1, UBUNTU1, "rejected", "sample")
    block(seen, UBUNTU2, UBUNTU1, "rejected", "sample")
    (finding,) = judged(seen)["findings"]
    assert finding["direction"] == "el1, ubuntu2 -> ubuntu1"
    assert (finding["node"], finding["peer"]) == ("ubuntu1", "el1, ubuntu2")
    assert finding["port"] == f"{seen.plan['data_ports']['firewalld']}/tcp"


def test_gloo_is_not_started_on_a_broken_mesh() -> None:
    seen = healthy()
    block(seen, EL1, UBUNTU1, "dropped")
    assert verification.decide_job_start(seen)["go"] is False
    found = judged(seen)
    assert [r["status"] for r in found["rungs"]] == (
        [
            "passed",
            "passed",
            "failed",
            "not_run",
            "not_run",
            "not_run",
            "passed",
            "not_run",
            "not_run",
        ]
    )
    assert "L2 failed" in found["rungs"][3]["reason"]
    assert found["collectives"] == {}


def test_gloo_is_not_started_when_the_master_port_is_taken() -> None:
    seen = healthy()
    hold_port(seen)
    assert "python3 (pid 7)" in verification.decide_job_start(seen)["reason"]


def test_checks_above_a_failed_one_are_not_run() -> None:
    seen = healthy()
    stop_rank(seen, "init", "failed", text="connectFullMesh failed")
    statuses = {r["id"]: r["status"] for r in judged(seen)["rungs"]}
    assert (statuses["L3"], statuses["L4"], statuses["L5"]) == ("passed", "failed", "not_run")


def test_the_rank_with_an_error_is_named_not_the_waiting_ones() -> None:
    seen = healthy()
    stop_rank(seen, "init", "failed", text="Unable to find address for: eth9")
    stop_rank(seen, "init", "hung", EL1)
    stop_rank(seen, "init", "hung", UBUNTU2)
    (finding,) = judged(seen)["findings"]
    assert finding["node"] == UBUNTU1
    assert "eth9" in finding["cause"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "SO_ERROR: No route to host, remote=[10.78.0.12]:10653$0",
            "(that is 10.78.0.12 port 40233)",
        ),
        (
            "remote=[10.77.0.12]:64966",
            "(that is 10.77.0.12 port 50941, which is not a cluster address)",
        ),
        ("remote=[fd78::1]:80", "(that is fd78::1 port 20480, which is not a cluster address)"),
    ],
)
def test_the_port_in_gloos_message_is_corrected(text: str, said: str) -> None:
    seen = healthy()
    stop_rank(seen, "init", "failed", text=text)
    assert said in judged(seen)["findings"][0]["cause"]


@pytest.mark.parametrize(
    ("mode", "expected"), [("peers_range", ["VC-211"]), ("peers_trusted", ["VC-211"]), ("off", [])]
)
def test_the_controller_must_not_reach_the_master_port(mode: str, expected: list[str]) -> None:
    seen = healthy()
    found = judged(replace(seen, mode=mode, outside=reach_from_controller(seen)))
    assert [f["code"] for f in found["findings"]] == expected


@pytest.mark.parametrize("verdict", ["open", "someone_else"])
def test_a_proxy_that_answers_the_controller_is_no_finding(verdict: str) -> None:
    seen = healthy()
    found = judged(replace(seen, outside=reach_from_controller(seen, verdict=verdict, offset=None)))
    assert found["findings"] == []
    assert any("something else answered" in note for note in found["rungs"][2]["details"]["notes"])


def test_unplanned_open_ports_are_a_finding_if_excluded() -> None:
    """The other modes do not close ports that peers could reach before."""
    seen = healthy(mode="peers_only")
    open_outside(seen)
    assert {f["code"] for f in judged(seen)["findings"]} == {"VC-210"}
    assert judged(replace(seen, mode="peers_range"))["findings"] == []


@pytest.mark.parametrize("mode", ["peers_range", "peers_trusted", "off"])
def test_untested_parts_of_a_mode_are_reported(mode: str) -> None:
    seen = healthy(mode=mode)
    open_outside(seen)
    found = judged(seen)
    assert found["findings"] == []
    assert any(mode in note for note in found["rungs"][2]["details"]["notes"])


def test_check_mode_requires_nothing() -> None:
    seen = healthy(check_mode=True)
    facts(seen)["addresses"].pop(seen.address(UBUNTU1))
    facts(seen)["versions"]["torch"] = ""
    found = judged(seen)
    assert (found["verdict"], found["check_mode"]) == ("ok", True)
    assert found["rungs"][0]["status"] == "skipped"
    assert found["rungs"][0]["reason"].startswith("check mode")
    assert [f["severity"] for f in found["findings"]] == ["warning"]


def test_check_mode_without_torch_skips_the_job() -> None:
    seen = healthy(check_mode=True)
    facts(seen)["versions"]["torch"] = ""
    reasons = [r["reason"] for r in judged(seen)["rungs"] if r["id"] in verification.JOB_CHECKS]
    assert reasons == ["check mode: torch is not installed on ubuntu1"] * 5


def test_without_nccl_the_check_is_skipped() -> None:
    seen = healthy()
    for name in NAMES:
        seen.nodes[name]["node"]["nccl"].update(version="", reason="missing")
    check = judged(seen)["rungs"][6]
    assert (check["status"], "libnccl" in check["reason"]) == ("skipped", True)


def test_without_a_gpu_nccl_does_not_apply_and_training_does() -> None:
    """These samples have no survey of GPUs. test_verify_recorded.py covers nodes with one."""
    seen = healthy()
    for name in NAMES:
        get_step_report(seen, "gpus", name).clear()
        get_step_report(seen, "gpus", name).update(applicable=False, why="torch is built for CPUs")
    found = judged(seen)
    rungs = {check["id"]: check for check in found["rungs"]}
    assert rungs["L7"]["status"] == "skipped"
    assert rungs["L7"]["reason"].startswith(
        "no rank has a GPU (torch is built for CPUs), and the survey"
    )
    assert (rungs["L8"]["status"], found["verdict"]) == ("passed", "ok")


# Messages of eight ranks on two CPUs (./fullmesh demo --nodes 8), each with another peer and port.
WAITED = "RuntimeError: [x/unbound_buffer.cc:78] Timed out waiting 10000ms for recv operation to complete"
GONE = "RuntimeError: [x/pair.cc:547] Connection closed by peer [10.78.0.1{}]:5061{}"


def test_one_deadline_that_ended_is_one_finding() -> None:
    seen = healthy()
    stop_rank(seen, "fsdp", "failed", EL1, text=GONE.format(3, 1))
    stop_rank(seen, "fsdp", "failed", UBUNTU1, text=WAITED)
    stop_rank(seen, "fsdp", "failed", "ubuntu2", text=GONE.format(2, 2))
    (finding,) = judged(seen)["findings"]
    assert (finding["code"], finding["node"]) == ("VC-808", UBUNTU1)
    set_load(seen, 7.5)
    (finding,) = judged(seen)["findings"]
    assert (finding["code"], finding["node"]) == ("VC-306", UBUNTU1)
    assert "load 7.5 on 2 CPUs" in finding["seen"]
    assert "says nothing about the network (every link was open just before)" in finding["cause"]
    assert (
        "-e verify_cluster_deadline_seconds=240 -e verify_cluster_init_timeout_seconds=20"
        in finding["fix"]
    )


def test_partners_that_only_lost_each_other_are_one_finding() -> None:
    seen = healthy()
    set_load(seen, 7.5)
    for number, name in enumerate(NAMES):
        stop_rank(seen, "all_reduce", "failed", name, text=GONE.format(number, number))
    (finding,) = judged(seen)["findings"]
    assert finding["code"] == "VC-403"
    assert "ranks 0, 1, 2 on" in finding["cause"]


def test_load_does_not_excuse_a_failed_gloo_connection() -> None:
    seen = healthy()
    set_load(seen, 7.5)
    text = "RuntimeError: [x/pair.cc:172] timed out connecting: SO_ERROR: No route to host, remote=[10.78.0.11]:10653$0"
    stop_rank(seen, "init", "failed", text=text)
    assert [finding["code"] for finding in judged(seen)["findings"]] == ["VC-401"]


@pytest.mark.parametrize(
    ("boots", "load", "factor"),
    [
        (("a", "b", "c"), 0.1, 1.0),  # one rank and two CPUs per machine
        (("a", "b", "c"), 5.0, 3.0),
        (("a", "a", "a"), 1.0, 2.0),  # containers of one machine
        (("", "", ""), 5.0, 3.0),  # unidentified machines are not added up
    ],
)
def test_deadlines_grow_with_ranks_and_load(
    boots: tuple[str, ...], load: float, factor: float
) -> None:
    seen = healthy()
    for name, boot in zip(NAMES, boots, strict=True):
        facts(seen, name).update(boot=boot, load=load, cpus=2)
    start = verification.decide_job_start(seen)
    assert (start["deadline"], start["init_timeout"]) == (120 * factor, 10 * factor)


def test_the_failing_rank_is_named_not_its_observers() -> None:
    seen = healthy()
    for name in NAMES:
        stop_rank(seen, "ddp", "wrong", name, check="start", ranks=[1], **WRONG)
    (finding,) = judged(seen)["findings"]
    assert (finding["code"], finding["node"]) == ("VC-801", UBUNTU1)
    assert "rank 1 on ubuntu1" in finding["cause"]


def test_a_single_check_fails_if_the_job_broke_off() -> None:
    seen = healthy(checks=("L8",))
    stop_rank(seen, "init", "failed", text="connectFullMesh failed")
    found = judged(seen)
    assert (found["failed_rungs"], found["findings"][0]["code"]) == (["L4"], "VC-401")
    assert {r["id"]: r["status"] for r in found["rungs"]}["L8"] == "not_run"


@pytest.mark.parametrize("speed", [-1, 0])
def test_a_link_without_a_speed_is_not_compared(speed: int) -> None:
    seen = healthy()
    get_step_report(seen, "nccl_sizes")["sizes"][1].update(bus_gbit_s=0.1)
    facts(seen)["interface"]["speed"] = speed
    assert judged(seen)["findings"] == []


def test_a_missing_address_is_reported_once() -> None:
    seen = healthy()
    facts(seen, EL1)["addresses"].pop(seen.address(EL1))
    no_sample(seen)
    assert [f["code"] for f in judged(seen)["findings"]] == ["VC-121"]


def test_an_untested_nccl_is_not_a_missing_library() -> None:
    seen = healthy()
    for name in NAMES:
        seen.nodes[name]["node"].pop("nccl")
    assert "not tested" in judged(seen)["rungs"][6]["reason"]


def test_a_subset_of_checks_judges_only_those() -> None:
    seen = healthy(checks=("L0", "L2"))
    nccl(seen, reason="refused")
    facts(seen)["limits"]["nofile"] = 1
    found = judged(seen)
    assert found["verdict"] == "ok"
    assert [r["status"] for r in found["rungs"]] == (
        ["passed", "skipped", "passed", *["skipped"] * 6]
    )


def test_one_node_has_no_links() -> None:
    found = judged(healthy(1))
    assert (found["verdict"], found["rungs"][2]["status"]) == ("ok", "skipped")


def test_untested_links_do_not_pass() -> None:
    seen = healthy()
    seen.nodes[EL1].pop("links")  # type: ignore[attr-defined]
    check = judged(seen)["rungs"][2]
    assert (check["status"], check["reason"]) == ("not_run", "only 4 of 6 links were tried")


def test_two_nodes_clocks_are_measured_against_the_master() -> None:
    seen = healthy(2)
    for record in links(seen, EL1, UBUNTU1):
        record.update(offset=-20.0)
    for record in links(seen, UBUNTU1, EL1):
        record.update(offset=20.0)
    (finding,) = judged(seen)["findings"]
    assert (finding["node"], finding["peer"], finding["seen"]) == (UBUNTU1, EL1, "-20.0 s")


@pytest.mark.parametrize(
    ("rungs", "last"),
    [(["L3"], "rendezvous"), (["L4", "L0"], "groups"), (["L5"], "sockets"), (["L8"], "gpu_fsdp")],
)
def test_a_check_includes_the_steps_below_it(rungs: list[str], last: str) -> None:
    assert rank_ends.list_steps(rungs)[-1] == last


def test_without_a_job_check_there_are_no_steps() -> None:
    assert rank_ends.list_steps(["L0", "L6"]) == []


GOOD_OPTIONS: dict[str, Any] = {
    "verify_cluster_checks": list(CHECKS),
    "verify_cluster_deadline_seconds": 60,
    "verify_cluster_init_timeout_seconds": 10,
    "verify_cluster_link_deadline_seconds": 3,
    "verify_cluster_payload_bytes": 65536,
    "verify_cluster_sample_ports": 3,
    "verify_cluster_bandwidth_mib": 64,
    "verify_cluster_clock_limit_seconds": 5,
    "verify_cluster_links": "auto",
}


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        ({}, []),
        ({"verify_cluster_checks": ["L9"]}, ["VC-701"]),
        ({"verify_cluster_checks": []}, ["VC-701"]),
        ({"verify_cluster_deadline_seconds": 1}, ["VC-702"]),
        ({"verify_cluster_deadline_seconds": "soon"}, ["VC-702"]),
        ({"verify_cluster_deadline_seconds": "90"}, []),
        ({"verify_cluster_deadline_seconds": "nan"}, ["VC-702"]),
        ({"verify_cluster_sample_ports": True}, ["VC-702"]),
        ({"verify_cluster_init_timeout_seconds": 60}, ["VC-702"]),
        ({"verify_cluster_links": "some"}, ["VC-780"]),
        (
            {"verify_cluster_checks": ["x"], "verify_cluster_clock_limit_seconds": 0},
            ["VC-701", "VC-702"],
        ),
    ],
)
def test_senseless_settings_are_refused(change: dict[str, Any], codes: list[str]) -> None:
    assert [f.code for f in verification.find_verify_faults({**GOOD_OPTIONS, **change})] == codes


def test_only_the_master_listens_on_the_named_ports() -> None:
    made = plan()
    kinds = [
        p["kind"] for p in probe_wants.build_listener_request(made, EL1, "peers_only")["named"]
    ]
    assert kinds == ["master", "rendezvous"]
    assert probe_wants.build_listener_request(made, UBUNTU1, "off")["named"] == []
    assert probe_wants.build_listener_request(made, UBUNTU1, "off")["outside"] is False
    assert probe_wants.build_listener_request(made, UBUNTU1, "peers_range")["outside"] is False
    assert probe_wants.build_listener_request(made, UBUNTU1, "peers_only")["outside"] is True


def test_a_node_is_sent_to_every_listener_but_its_own() -> None:
    seen = healthy()
    hold_port(seen)
    opened = {name: seen.nodes[name]["node"]["ports"] for name in NAMES}
    wanted = probe_wants.list_probe_targets(seen.plan, opened, UBUNTU1)
    assert {t["node"] for t in wanted} == {EL1, UBUNTU2}
    assert 29500 not in {
        t["port"] for t in wanted
    }  # another process holds it, so a connection proves nothing
    from_outside = probe_wants.list_outsider_targets(
        seen.plan, opened, dict.fromkeys(NAMES, "10.77.0.9")
    )
    assert {(t["address"], t["port"]) for t in from_outside} == {
        ("10.77.0.9", 29400),
        ("10.78.0.11", 29400),
    }


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(blocked.VERDICTS), min_size=6, max_size=6))
# One node has a hole in both directions with one peer, and in one direction with the other.
@example(["someone_else", "mtu_black_hole"] * 3)
def test_any_mesh_gives_a_valid_result(words: list[str]) -> None:
    seen = healthy()
    pairs = [(a, b) for a in NAMES for b in NAMES if a != b]
    for (source, target), word in zip(pairs, words, strict=True):
        if word != "open":
            block(seen, source, target, word)
    found = judged(seen)
    assert (found["verdict"] == "ok") == (set(words) == {"open"})
    assert [row["verdict"] for row in found["links"]] == words
    listed = [one for f in found["findings"] for one in (f, *f["follows"])]
    blocked = {f["direction"] for f in listed if f["rung"] == "L2"}
    both = {d.replace("<->", "->") for d in blocked if "<->" in d}
    blocked = {d for d in blocked if "<->" not in d} | both
    blocked |= {" -> ".join(reversed(d.split(" -> "))) for d in both}
    for (source, target), word in zip(pairs, words, strict=True):
        if word != "open":
            assert any(
                source in d.split(" -> ")[0] and target in d.split(" -> ")[1] for d in blocked
            )
