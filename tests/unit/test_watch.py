"""The watch: who is missing and why, from pictures of jobs, real process trees and real sockets."""

from __future__ import annotations

import json
import os
import queue
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fullmesh_watch
import fullmesh_watch_judge as watch_judge
import fullmesh_watch_look as watch_look
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullmesh import cli, ssh
from fullmesh.contract import convert_value
from fullmesh.observed.watch import (
    EventKind,
    JobProblem,
    JobSnapshot,
    PartialParticipants,
    Participants,
    WatchedProcess,
    WatchedSocket,
    WatchEventFields,
)
from fullmesh.printed import CONTROL
from fullmesh.settings import ROOT
from fullmesh.verbs import watch as watch_cli
from fullmesh.watch import remote as watch_remote

SCRIPT = ROOT / "node_programs/fullmesh_watch.py"
PLAN: Participants = {
    "nodes": [
        {
            "name": "el1",
            "address": "10.78.0.11",
            "addresses": ["10.78.0.11"],
            "names": ["el1"],
            "first_rank": 0,
            "local_ranks": 2,
        },
        {
            "name": "ub1",
            "address": "10.78.0.12",
            "addresses": ["10.78.0.12"],
            "names": ["ub1"],
            "first_rank": 2,
            "local_ranks": 2,
        },
    ],
    "master": {"node": "el1", "address": "10.78.0.11", "port": 29500},
    "data_ports": {"first": 50000, "last": 54095},
    "networks": ["10.78.0.0/24"],
}
ESTABLISHED, SYN_SENT, LISTEN = 1, 2, 10


def process(pid: int, **more: Any) -> WatchedProcess:
    """A process of a job that was told nothing, but for *more*; checked, so that no test makes one that cannot be."""
    plain = {"rank": None, "world": 0, "groups": 0, "nnodes": 0, "master": "", "port": 0}
    told = {"agent": None, "coordinator": None, "static": False, "command": "", "told": {}}
    return convert_value(WatchedProcess, {"pid": pid, **plain, **told, **more})


def rank(pid: int, number: int, master: str = "10.78.0.11", port: int = 29500) -> WatchedProcess:
    return process(pid, rank=number, world=4, master=master, port=port)


def agent(pid: int, host: str, port: int, static: bool = False) -> WatchedProcess:
    return process(pid, agent=(host, port), static=static)


def row(
    pid: int, state: int, here: tuple[str, int], there: tuple[str, int] = ("", 0)
) -> WatchedSocket:
    return {
        "pid": pid,
        "state": state,
        "address": here[0],
        "port": here[1],
        "peer": there[0],
        "peer_port": there[1],
        "inode": "1",
    }


STORE = ("10.78.0.11", 29500)
EL1 = [rank(1, 0), rank(2, 1)]
OWN = [
    row(1, LISTEN, ("::", 29500)),
    row(1, ESTABLISHED, ("10.78.0.11", 50001), STORE),
    row(1, ESTABLISHED, STORE, ("10.78.0.11", 50001)),
    row(2, ESTABLISHED, ("10.78.0.11", 50002), STORE),
    row(1, ESTABLISHED, STORE, ("10.78.0.11", 50002)),
]
FROM_UB1 = [row(1, ESTABLISHED, STORE, ("10.78.0.12", port)) for port in (50001, 50002)]


def seen(processes: list[WatchedProcess], sockets: list[WatchedSocket]) -> JobSnapshot:
    return {"processes": processes, "sockets": sockets, "others": []}


class Watched(fullmesh_watch.JobWatch):
    """A watch whose clock and probes are the test's."""

    to_unreached, to_missing = "dropped", "refused"

    def __init__(
        self, me: str = "el1", plan: PartialParticipants | None = None, *words: str
    ) -> None:
        args = fullmesh_watch.parse_arguments(
            ["--name", me, "--within", "60", "--json", *words, "--", "job"]
        )
        super().__init__(args, PLAN if plan is None else plan)
        self.clock = 0.0
        self.events: list[tuple[EventKind, WatchEventFields]] = []

    def age(self) -> float:
        return self.clock

    def event(self, kind: EventKind, more: WatchEventFields | None = None) -> None:
        self.events.append((kind, more or {}))

    def report(self, problem: JobProblem) -> None:
        self.tell(problem)

    def explain(self, problem: JobProblem) -> None:
        if problem["code"] == watch_judge.UNREACHED:
            watch_judge.explain_unreached(problem, self.plan, self.to_unreached, own=False)
        elif problem["code"] == watch_judge.MISSING:
            watch_judge.explain_missing(problem, self.to_missing, "public", self.me)

    def at(self, clock: float, picture: JobSnapshot) -> list[str]:
        """Look at a picture at some time; what is said then."""
        self.clock, self.events = clock, []
        self.judge_now(picture)
        return [more["problem"]["sentence"] if more else kind for kind, more in self.events]


def test_a_healthy_job_is_watched_without_a_word() -> None:
    job = Watched()
    for clock in (1, 30, 100, 1000, 10000):
        assert job.at(clock, seen(EL1, OWN + FROM_UB1)) == []


def test_a_missing_rank_is_named_once_with_the_zone() -> None:
    job = Watched()
    assert job.at(1, seen(EL1, OWN)) == []
    assert job.at(60, seen(EL1, OWN)) == []
    [said] = job.at(61, seen(EL1, OWN))
    assert said.startswith(
        "[WA-101] ranks 2-3 (ub1) has not reached 10.78.0.11:29500 here: zone public on el1 does not open 29500/tcp."
    )
    assert job.at(120, seen(EL1, OWN)) == []
    assert job.at(130, seen(EL1, OWN + FROM_UB1)) == ["together"]


def test_one_of_two_ranks_is_missing() -> None:
    job = Watched()
    job.at(0, seen(EL1, OWN + FROM_UB1[:1]))
    [said] = job.at(60, seen(EL1, OWN + FROM_UB1[:1]))
    assert "1 of ub1's 2 ranks has not reached" in said


def test_a_rank_that_cannot_connect_names_peer_and_reason() -> None:
    job = Watched("ub1")
    picture = seen([rank(7, 2)], [row(7, SYN_SENT, ("10.78.0.12", 50003), STORE)])
    job.at(0, picture)
    [said] = job.at(60, picture)
    assert said.startswith(
        "[WA-102] rank 2 (ub1, this node) has not reached 10.78.0.11:29500 (el1): dropped"
    )
    assert "On el1: firewall-cmd" in said


def test_shells_and_data_loaders_of_a_rank_are_that_rank() -> None:
    job = Watched("ub1")
    store = row(8, ESTABLISHED, ("10.78.0.12", 50009), STORE)
    picture = seen([rank(7, 2), rank(8, 2), rank(9, 2), rank(6, 3)], [store])
    assert job.at(0, picture) == []
    [said] = job.at(60, picture)
    assert said.startswith("[WA-102] rank 3 (ub1, this node)")
    assert job.at(600, picture) == []


def test_a_job_on_one_node_waits_for_no_other() -> None:
    alone = [one | {"world": 2} for one in EL1]
    meet = agent(3, *STORE, static=True) | {"nnodes": 1}
    for processes in (alone, [meet, *alone], [meet]):
        job = Watched()
        picture = seen(
            processes, [*OWN, row(3, LISTEN, ("::", 29500)), row(3, ESTABLISHED, STORE, STORE)]
        )
        assert [job.at(clock, picture) for clock in (0, 60, 600)] == [[], [], []]


def test_all_planned_ranks_may_be_on_one_node() -> None:
    job = Watched()
    alone = [rank(pid, pid) | {"groups": 1} for pid in (1, 2)]
    picture = seen(alone, [*OWN, *OWN[2:]])
    assert [job.at(clock, picture) for clock in (0, 60, 600)] == [[], [], []]


def test_an_unhindered_rank_gets_more_time() -> None:
    class Open(Watched):
        def explain(self, problem: JobProblem) -> None:
            watch_judge.explain_unreached(problem, self.plan, "open", own=False)

    job = Open("ub1")
    picture = seen([rank(7, 2)], [])
    assert [job.at(clock, picture) for clock in (0, 60, 61, 121, 299)] == [[], [], [], [], []]
    assert job.reported == {}
    [said] = job.at(300, picture) or job.at(360, picture)
    assert "it is still starting, or waits for something else" in said


def test_a_job_smaller_than_the_plan_is_counted() -> None:
    job = Watched()
    three = [one | {"world": 3} for one in EL1]
    job.at(0, seen(three, OWN))
    [said] = job.at(60, seen(three, OWN))
    assert "at least 1 of 3 ranks (connected: el1) has not reached" in said
    job = Watched()
    meet = agent(3, "10.78.0.11", 29400) | {"nnodes": 3}
    picture = seen([meet], [row(3, LISTEN, ("::", 29400))])
    job.at(0, picture)
    [said] = job.at(60, picture)
    assert "at least 3 of 3 nodes (connected: nobody)" in said


def test_a_program_around_torchrun_is_no_second_agent() -> None:
    job = Watched("ub1")
    meet = ("10.78.0.11", 29400)
    picture = seen(
        [agent(1, *meet), agent(2, *meet)], [row(2, ESTABLISHED, ("10.78.0.12", 50009), meet)]
    )
    assert [job.at(clock, picture) for clock in (0, 60, 600)] == [[], [], []]


@pytest.mark.parametrize(("names", "number"), [(watch_look.RANKS[0], 3), (watch_look.RANKS[2], 4)])
def test_ranks_of_mpirun_and_srun(names: tuple[str, str], number: int) -> None:
    plain = rank(1, 0) | {"rank": None, "told": {names[0]: str(number), names[1]: "8"}}
    [found] = watch_look.assign_ranks([dict(plain)])
    assert (found["rank"], found["world"]) == (number, 8)
    below = [dict(plain), rank(2, 12)]
    assert watch_look.assign_ranks(below)[0]["rank"] is None
    assert watch_look.assign_ranks([dict(plain), agent(2, "10.78.0.11", 29400)])[0]["rank"] is None


def test_a_wrong_master_is_called_wrong() -> None:
    job = Watched("ub1")
    picture = seen([rank(7, 2, "10.78.0.99")], [])
    job.at(0, picture)
    [said] = job.at(60, picture)
    assert "has not reached 10.78.0.99:29500:" in said
    assert "the plan's master is 10.78.0.11 (el1)" in said
    assert "Set MASTER_ADDR=10.78.0.11 here" in said


def test_an_unanswered_data_connection_names_the_range() -> None:
    job = Watched("ub1")
    store = row(7, ESTABLISHED, ("10.78.0.12", 50009), STORE)
    for port, word in ((50123, "in"), (40123, "OUTSIDE")):
        job = Watched("ub1")
        picture = seen(
            [rank(7, 2)], [store, row(7, SYN_SENT, ("10.78.0.12", 50003), ("10.78.0.11", port))]
        )
        job.at(0, picture)
        [said] = job.at(60, picture)
        assert said.startswith(
            f"[WA-103] rank 2 (ub1, this node) gets no answer from 10.78.0.11:{port} (el1): dropped"
        )
        assert f"is {word} the data range" in said


def test_a_connection_to_another_program_is_ignored() -> None:
    job = Watched("ub1")
    store = row(7, ESTABLISHED, ("10.78.0.12", 50009), STORE)
    picture = seen(
        [rank(7, 2)], [store, row(7, SYN_SENT, ("10.78.0.12", 50003), ("192.0.2.7", 443))]
    )
    assert [job.at(clock, picture) for clock in (0, 60, 600)] == [[], [], []]


def test_ranks_that_left_before_any_data_are_named() -> None:
    job = Watched()
    job.at(0, seen(EL1, OWN + FROM_UB1))
    job.at(100, seen(EL1, OWN))
    [said] = job.at(160, seen(EL1, OWN))
    assert said.startswith("[WA-104] ranks 2-3 (ub1) has left 10.78.0.11:29500")
    assert "explain-log" in said


def test_ranks_that_leave_a_job_that_worked_are_not() -> None:
    job = Watched()
    data = row(1, ESTABLISHED, ("10.78.0.11", 50100), ("10.78.0.12", 50200))
    job.at(0, seen(EL1, [*OWN, *FROM_UB1, data]))
    assert [job.at(clock, seen(EL1, OWN)) for clock in (100, 200, 900)] == [[], [], []]


def test_a_rank_that_left_its_store_had_reached_it() -> None:
    job = Watched("ub1")
    job.at(0, seen([rank(7, 2)], [row(7, ESTABLISHED, ("10.78.0.12", 50009), STORE)]))
    assert [job.at(clock, seen([rank(7, 2)], [])) for clock in (100, 200)] == [[], []]


@pytest.mark.parametrize(
    ("static", "who"), [(True, "ranks 2-3 (ub1)"), (False, "ub1 (10.78.0.12)")]
)
def test_an_elastic_rendezvous_names_no_fixed_ranks(static: bool, who: str) -> None:
    job = Watched()
    picture = seen([agent(3, *STORE, static)], [row(3, LISTEN, ("::", 29500))])
    if static:
        job.at(0, picture)
        [said] = job.at(60, picture)
        assert "2 of ub1" in said or who in said
    else:
        job.at(0, picture)
        [said] = job.at(60, picture)
        assert who in said


def test_without_a_plan_ranks_are_counted() -> None:
    job = Watched("me", {})
    job.at(0, seen(EL1, OWN + FROM_UB1[:1]))
    [said] = job.at(60, seen(EL1, OWN + FROM_UB1[:1]))
    assert "at least 1 of 4 ranks (connected: 10.78.0.12, here)" in said


def test_every_why_is_a_sentence_and_every_verdict_has_one() -> None:
    for verdict in (
        *watch_look.OUTCOMES.values(),
        *watch_look.ARP_WORDS.values(),
        "dropped",
        "unresolved",
        "waiting",
        "loopback",
    ):
        problem = watch_judge.build_problem(
            watch_judge.UNREACHED, "10.78.0.11", 29500, "store", "ub1"
        )
        problem.update({"who": "rank 2", "node": "ub1", "rank": 2})
        watch_judge.explain_unreached(problem, PLAN, verdict, own=False)
        assert problem["why"] == watch_judge.WHY[verdict]
        assert watch_judge.describe_problem(problem).startswith(
            "[WA-102] rank 2 has not reached 10.78.0.11:29500 (el1): "
        )


PICTURES = st.fixed_dictionaries(
    {
        "processes": st.lists(
            st.sampled_from(
                [*EL1, agent(3, *STORE), agent(4, "el1", 0, True), rank(9, 3, "fd78::11")]
            ),
            max_size=4,
        ),
        "sockets": st.lists(
            st.builds(
                row,
                st.integers(1, 9),
                st.integers(1, 11),
                st.tuples(
                    st.sampled_from(["10.78.0.11", "::", "fd78::12"]),
                    st.sampled_from([29500, 50001]),
                ),
                st.tuples(
                    st.sampled_from(["10.78.0.12", "fd78::11", "192.0.2.1"]),
                    st.sampled_from([29500, 443]),
                ),
            ),
            max_size=8,
        ),
        "others": st.just([]),
    }
)


@given(st.lists(PICTURES, max_size=6), st.sampled_from([PLAN, {}, {"nodes": []}]))
def test_no_picture_breaks_the_watch(
    pictures: list[JobSnapshot], plan: PartialParticipants
) -> None:
    job = Watched("el1", plan)
    for number, picture in enumerate(pictures):
        for said in job.at(61.0 * number, picture):
            assert not CONTROL.search(said)


ZONES = "fullmesh\n  sources: ipset:fullmesh-peers4 10.78.0.12\npublic (default)\n  interfaces: eth0 eth1\n"
INFO = """fullmesh (active)
  target: {target}
  services: ssh
  ports: 22/tcp 29400/tcp 50000-54095/tcp 29500/udp
  rich rules: {rich}
"""


def test_zones_are_read() -> None:
    assert watch_look.parse_active_zones(ZONES) == [
        ("fullmesh", "sources", ["ipset:fullmesh-peers4", "10.78.0.12"]),
        ("public", "interfaces", ["eth0", "eth1"]),
    ]


@pytest.mark.parametrize(
    ("port", "target", "rich", "expected"),
    [
        (29400, "default", "", True),
        (50777, "default", "", True),
        (29500, "default", "", False),
        (29500, "ACCEPT", "", True),
        (29500, "default", 'rule family="ipv4" port port="29500" protocol="tcp" accept', True),
    ],
)
def test_whether_a_zone_opens_a_port(port: int, target: str, rich: str, expected: bool) -> None:
    assert watch_look.is_port_open_in(INFO.format(target=target, rich=rich), port) is expected


@pytest.mark.parametrize(
    ("address", "zone"), [("10.78.0.12", "fullmesh"), ("10.78.0.13", "public")]
)
def test_the_zone_of_a_peer(address: str, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*command: str) -> str:
        if command[1] == "--get-active-zones":
            return ZONES
        return "no" if "query-entry" in command[-1] else INFO.format(target="default", rich="")

    monkeypatch.setattr(watch_look, "capture_command", ask)
    monkeypatch.setattr(
        watch_look.sockets, "find_path_to", lambda _: {"dev": "eth1", "neighbour": "reachable"}
    )
    assert watch_look.find_zone_of(address) == zone
    assert watch_look.find_blocking_zone(address, 29500) == zone
    assert watch_look.find_blocking_zone(address, 29400) == ""


# As firewalld 1.3.3 prints it.
POLICIES = """\
allow-host-ipv6
  ingress-zones: ANY
  egress-zones: HOST
fullmesh-job
  ingress-zones: {0}
  egress-zones: HOST
"""
POLICY = """\
fullmesh-job (active)
  priority: -19000
  target: CONTINUE
  ingress-zones: {0}
  egress-zones: HOST
  services:
  ports:
  rich rules:
\trule family="ipv4" source ipset="fullmesh-peers4" {1}accept
"""


@pytest.mark.parametrize(
    ("ingress", "what", "shut"),
    [
        ("ANY", 'port port="29500" protocol="tcp" ', ""),
        ("public", 'port port="29400-29600" protocol="tcp" ', ""),
        ("ANY", "", ""),
        ("internal", 'port port="29500" protocol="tcp" ', "public"),
        ("ANY", 'port port="29400" protocol="tcp" ', "public"),
    ],
)
def test_a_policy_opens_what_the_zone_does_not(
    ingress: str, what: str, shut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*command: str) -> str:
        if command[1] == "--get-active-policies":
            return POLICIES.format(ingress)
        if command[1].startswith("--info-policy"):
            return POLICY.format(ingress, what) if "fullmesh" in command[1] else ""
        if command[1] == "--get-active-zones":
            return "public\n  interfaces: eth0 eth1\n"
        return INFO.format(target="default", rich="").replace("29400/tcp 50000-54095/tcp", "")

    monkeypatch.setattr(watch_look, "capture_command", ask)
    monkeypatch.setattr(watch_look.sockets, "find_path_to", lambda _: {"dev": "eth1"})
    assert watch_look.find_blocking_zone("10.78.0.12", 29500) == shut


def test_no_firewalld_is_no_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_look, "capture_command", lambda *_: "")
    assert watch_look.find_blocking_zone("10.78.0.12", 29500) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.11:29400", ("10.0.0.11", 29400)),
        ("[fd78::11]:29400", ("fd78::11", 29400)),
        ("node-a", ("node-a", 0)),
        ("node-a:", ("node-a:", 0)),
    ],
)
def test_endpoints_are_split(text: str, expected: tuple[str, int]) -> None:
    assert watch_look.split_endpoint(text) == expected


def test_options_are_found_in_both_spellings() -> None:
    assert watch_look.find_option(["torchrun", "--rdzv-endpoint=a:1"], watch_look.ENDPOINT) == "a:1"
    assert (
        watch_look.find_option(["torchrun", "--rdzv_endpoint", "a:1", "x.py"], watch_look.ENDPOINT)
        == "a:1"
    )
    assert watch_look.find_option(["torchrun", "--rdzv-endpoint"], watch_look.ENDPOINT) == ""
    assert watch_look.find_option(["torchrun", "--nnodes=2", "--nnodes=1"], watch_look.NODES) == "1"


def test_a_probe_reports_the_kernel_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert watch_look.probe_endpoint("127.0.0.1", port) == "open"
    assert watch_look.probe_endpoint("127.0.0.1", port) == "refused"


def test_names_are_resolved_without_waiting_and_cleaned() -> None:
    names = watch_look.NameResolver()
    assert names.addresses("127.0.0.1") == ["127.0.0.1"]
    assert names.addresses("no-such-name.invalid", 30) == []


JOB = """
import os, socket, sys, time
port = int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    server = socket.create_server(("127.0.0.1", port))
    print("listening", flush=True)
    held = server.accept()
else:
    while True:
        try:
            held = socket.create_connection(("127.0.0.1", port), 1)
            break
        except OSError:
            time.sleep(0.1)
time.sleep(float(os.environ.get("LASTS", "0")))
print("rank", os.environ["RANK"], "done", flush=True)
"""


def env(**more: str) -> dict[str, str]:
    keep = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("MASTER", "RANK", "FULLMESH", "WORLD"))
    }
    return keep | more


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_picture_of_a_real_job() -> None:
    port = str(free_port())
    told = env(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, LASTS="60")
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {JOB!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", outer], env=told, stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "listening\n"
        picture = watch_look.observe_job(job.pid)
        ranks = [p for p in picture["processes"] if p["rank"] == 0]
        assert ranks
        assert {p["port"] for p in ranks} == {int(port)}
        assert watch_judge.is_hosted_here(picture, int(port))
        with socket.create_connection(("127.0.0.1", int(port))):
            deadline = time.monotonic() + 30
            while (
                not watch_judge.count_peer_connections(picture, int(port))
                and time.monotonic() < deadline
            ):
                picture = watch_look.observe_job(job.pid)
            assert watch_judge.count_peer_connections(picture, int(port)) == {"127.0.0.1": 1}
        for pid in watch_look.list_process_tree(job.pid):
            os.kill(pid, signal.SIGKILL)


def watched(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    environment = more.pop("env", env())
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--plan", "{}", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
        **more,
    )


def test_automatic_ranks_are_those_the_node_was_configured_with() -> None:
    inline = {
        "nodes": [
            {"name": "a", "first_rank": 0, "local_ranks": 1, "auto": True},
            {"name": "b", "first_rank": 1, "local_ranks": 2},
            {"name": "new", "first_rank": 3, "local_ranks": 1, "auto": True},
        ]
    }
    kept = {"nodes": [{"name": name, "first_rank": 8, "local_ranks": 8} for name in ("a", "b")]}
    found = fullmesh_watch.add_known_ranks(inline, kept)["nodes"]
    assert [(one["name"], one["local_ranks"]) for one in found] == [("a", 8), ("b", 2), ("new", 1)]
    assert not any("auto" in one for one in found)


@pytest.mark.parametrize("code", [0, 1, 3, 77])
def test_the_exit_code_is_the_jobs_and_healthy_jobs_are_quiet(code: int) -> None:
    done = watched("--", "sh", "-c", f"echo out; echo err >&2; exit {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "out\n", "err\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_of_the_job_is_passed_on(number: signal.Signals) -> None:
    done = watched("--", "sh", "-c", f"kill -{number.value} $$")
    assert done.returncode == -number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_job(number: signal.Signals, tmp_path: Path) -> None:
    script = (
        "import signal, sys\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(40))\n"
        "print('ready', flush=True)\nsignal.pause()\n"
    )
    command = [sys.executable, str(SCRIPT), "--plan", "{}", "--", sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "ready\n"
        job.send_signal(number)
        assert job.wait(60) == 40


def test_standard_input_is_the_jobs() -> None:
    done = watched("--", "cat", input="hello")
    assert done.stdout == "hello"


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        ([], "WA-105", 2),
        (["--within", "0", "--", "true"], "WA-105", 2),
        (["--kill-after", "-1", "--", "true"], "WA-105", 2),
        (["--", "/no/such/program"], "WA-106", 127),
        (["--", "/etc/passwd"], "WA-106", 126),
    ],
)
def test_jobs_that_cannot_be_watched(arguments: list[str], code: str, exit_code: int) -> None:
    done = watched(*arguments)
    assert done.returncode == exit_code
    assert done.stderr.startswith(f"[{code}]")


def test_an_incomplete_job_is_named_and_ended() -> None:
    told = env(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    done = watched("--within", "1", "--kill-after", "1", "--", sys.executable, "-c", JOB, env=told)
    assert done.returncode == 1
    assert "[WA-101] at least 2 of 2 ranks (connected: nobody)" in done.stderr
    assert "[WA-108]" in done.stderr


def test_a_rank_without_its_store_is_named() -> None:
    port = str(free_port())
    told = env(RANK="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    done = watched("--within", "1", "--kill-after", "1", "--", sys.executable, "-c", JOB, env=told)
    assert done.returncode == 1
    assert f"has not reached 127.0.0.1:{port}" in done.stderr
    assert "[WA-102] rank 1 (" in done.stderr


def test_the_end_of_the_parent_ends_the_job() -> None:
    command = [sys.executable, str(SCRIPT), "--plan", "{}", "--within", "1", "--leash", "--"]
    job = subprocess.Popen(
        [*command, "sh", "-c", "echo $$; exec sleep 600"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None
    pid = int(job.stdout.readline())
    assert job.stdin is not None
    job.stdin.close()
    assert job.wait(60) == -signal.SIGTERM
    job.stdout.close()
    assert not Path(f"/proc/{pid}").exists()


def test_a_job_that_ignores_the_end_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fullmesh_watch, "GRACE", 0.5)
    args = fullmesh_watch.parse_arguments(["--within", "1", "--", "x"])
    job = fullmesh_watch.JobWatch(args, {})
    stubborn = "trap '' TERM; sleep 600 & echo $!; wait; wait"
    with subprocess.Popen(["bash", "-c", stubborn], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        fullmesh_watch.end_job(job, process, signal.SIGTERM)
        assert process.poll() is None
        time.sleep(0.7)
        fullmesh_watch.end_job(job, process, signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
    assert "State:\tS" not in _status(child)


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""


# --- the controller's side ---


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Two nodes that are this machine."""
    path = tmp_path / "hosts.yml"
    nodes = {
        name: {
            "ansible_connection": "local",
            "ansible_host": f"127.0.0.{number}",
            "ansible_python_interpreter": sys.executable,
        }
        for number, name in ((11, "node-a"), (12, "node-b"))
    }
    path.write_text(json.dumps({"all": {"children": {"torch_nodes": {"hosts": nodes}}}}))
    return path


def test_a_job_on_all_nodes(inventory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = cli.main(
        [
            "watch",
            "-i",
            str(inventory),
            "--",
            "sh",
            "-c",
            "echo rank $RANK of $WORLD_SIZE; exit $RANK",
        ]
    )
    out = capfd.readouterr()
    assert sorted(out.out.splitlines()) == ["[node-a] rank 0 of 2", "[node-b] rank 1 of 2"]
    assert (code, out.err) == (1, "")


def test_a_missing_rank_is_reported_once_from_both_ends(
    inventory: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def diagnose(_inventory: Path) -> tuple[subprocess.Popen[bytes], Any]:
        out = open(os.devnull, "rb")  # noqa: SIM115 (as the real one)
        started.append(subprocess.Popen(["true"]))
        return started[-1], out

    monkeypatch.setattr(watch_cli, "start_diagnosis", diagnose)
    monkeypatch.setattr(watch_cli, "GATHER", 3.0)
    job = "import os,sys; os.environ['RANK']=='1' and sys.exit(5)\n" + JOB.replace(
        "127.0.0.1", "127.0.0.11"
    )
    port = str(free_port())
    call = ["watch", "--within", "1", "--kill-after", "8", "-i", str(inventory), "--"]
    call += ["env", f"MASTER_PORT={port}", sys.executable, "-c", job]
    assert cli.main(call) == 5
    err = capfd.readouterr().err
    assert (
        f"[WA-101] rank 1 (node-b) has not reached 127.0.0.11:{port} (node-a): the job does not run there (exit 5"
        in err
    )
    assert "[WA-108] node-a" in err
    assert started


def problem(code: str, at: str, **more: Any) -> JobProblem:
    made = watch_judge.build_problem(code, "10.78.0.11", 29500, "store", at)
    words = {"who": "rank 1 (ub1)", "node": "ub1", "sentence": "as it is"}
    return convert_value(JobProblem, {**made, **words, **more})


def test_both_ends_in_one_sentence() -> None:
    missing = problem(
        "WA-101", "el1", zone="public", why="zone public on el1 does not open 29500/tcp"
    )
    unreached = problem("WA-102", "ub1", why="dropped: no answer at all")
    both = [missing, unreached]
    assert watch_remote.merge_problems(both, both, {}) == [
        "[WA-101] rank 1 (ub1) has not reached 10.78.0.11:29500 (el1): dropped: no answer at all; zone public on el1"
        " does not open 29500/tcp."
    ]
    elsewhere = problem("WA-102", "ub1", why="nobody answers", host="10.78.0.99")
    [line] = watch_remote.merge_problems([missing], [missing, elsewhere], {})
    assert "nobody answers (it tries 10.78.0.99:29500)" in line
    assert watch_remote.merge_problems([unreached], [unreached], {}) == ["as it is"]


def test_node_output_cannot_control_the_terminal() -> None:
    bad = problem("WA-101", "el1", who="\x1b[2Jrank\n1", why="\u202egnorw")
    [line] = watch_remote.merge_problems([bad], [bad], {})
    assert not CONTROL.search(line)
    assert watch_remote.parse_watch_event("\x1efullmesh-watch {no json") is None
    assert watch_remote.parse_watch_event("\x1efullmesh-watch []") is None


def test_an_event_matches_its_type_exactly() -> None:
    event = {"event": "problem", "node": "ub1", "after": 61.0, "problem": problem("WA-101", "el1")}
    assert watch_remote.parse_watch_event(watch_remote.MARK + json.dumps(event)) == event
    for spoiled in (
        event | {"event": "joy"},
        event | {"more": 1},
        event | {"problem": {"code": "WA-101"}},
        {key: value for key, value in event.items() if key != "node"},
    ):
        assert watch_remote.parse_watch_event(watch_remote.MARK + json.dumps(spoiled)) is None


def test_ssh_uses_the_settings_of_the_inventory() -> None:
    variables = {
        "ansible_host": "192.0.2.1",
        "ansible_user": "root",
        "ansible_port": 2222,
        "ansible_ssh_private_key_file": "/k",
        "ansible_ssh_common_args": "-o ProxyJump=gate -o 'X=a b'",
        "ansible_password": "secret",
    }
    reach = watch_remote.extract_ssh_settings(ssh.resolve_ssh_variables(variables))
    argv = watch_remote.build_ssh_command(reach, "node-a", "text; more")
    assert argv[:1] == ["ssh"]
    assert argv[-2:] == ["192.0.2.1", "text; more"]
    for words in (
        ["-p", "2222"],
        ["-l", "root"],
        ["-i", "/k"],
        ["-o", "ProxyJump=gate", "-o", "X=a b"],
    ):
        assert shlex.join(words) in shlex.join(argv)
    assert "secret" not in str(argv)


def test_ssh_uses_the_settings_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # a first hour by ~/.ssh/config or by "-F": nothing of it stands in the inventory
    monkeypatch.setenv("ANSIBLE_SSH_COMMON_ARGS", "-F /tmp/config")
    monkeypatch.setenv("ANSIBLE_PRIVATE_KEY_FILE", "/other")
    variables = {"ansible_ssh_private_key_file": "/k"}
    reach = watch_remote.extract_ssh_settings(ssh.resolve_ssh_variables(variables))
    argv = shlex.join(watch_remote.build_ssh_command(reach, "node-a", "text"))
    assert "-F /tmp/config" in argv
    assert "-i /k" in argv
    assert argv.endswith("-- node-a text")
    # the first value of an option is the one that ssh takes: a master of Ansible's is not waited for
    assert argv.index("ControlPath=none") < argv.index("ControlMaster=auto")


def test_a_node_that_ssh_does_not_reach_is_the_reason(capfd: pytest.CaptureFixture[str]) -> None:
    said: queue.Queue[watch_remote.NodeMessage] = queue.Queue()
    command = ["sh", "-c", "echo 'no route to host' >&2; exit 255"]
    nodes = {"ub1": watch_remote.start_node_job("ub1", command, said)}
    assert (
        watch_cli.follow_job(watch_cli.WatchedJob(Path("x"), nodes, said, ["ub1"], diagnoses=False))
        == 255
    )
    assert "ub1 cannot be reached by ssh: no route to host" in capfd.readouterr().err
    missing = problem("WA-101", "el1")
    assert "ssh failed" in watch_remote.merge_problems([missing], [missing], nodes)[0]


def test_a_signal_ends_the_job_on_all_nodes(inventory: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fullmesh", "watch", "-i", str(inventory), "--"]
    job = subprocess.Popen(
        [*command, "sh", "-c", f"echo $$ > {tmp_path}/$RANK; exec sleep 600"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        cwd=ROOT,
    )
    files = [tmp_path / "0", tmp_path / "1"]
    deadline = time.monotonic() + 60
    while (
        not all(f.exists() and f.read_text().strip() for f in files) and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    pids = [f.read_text().strip() for f in files]
    job.send_signal(signal.SIGTERM)
    assert job.wait(60) == 143
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{not yaml: [", "has no usable nodes"),
        ("all: {hosts: {a: {ansible_host: 127.0.0.1, ansible_connection: podman}}}", "is not ssh"),
    ],
)
def test_an_inventory_that_cannot_be_used(
    tmp_path: Path, content: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(content)
    assert cli.main(["watch", "-i", str(path), "--", "true"]) == 2
    err = capsys.readouterr().err
    assert "[WA-107]" in err
    assert text in err


def test_ansibles_options_choose_and_reach_the_nodes(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(
        "torch_nodes:\n  hosts:\n    a: {fullmesh_address: 203.0.113.1/24}\n"
        "    b: {fullmesh_address: 203.0.113.2/24, ansible_user: own}\n"
    )
    part = watch_cli.resolve_job_hosts(path, ["--limit=!c", "--user=bob", "--private-key=/k"])
    assert {name: (one["user"], one["key"]) for name, one in part["hosts"].items()} == {
        "a": ("bob", "/k"),
        "b": ("own", "/k"),  # the inventory's own wins, as it does for Ansible
    }
    part = watch_cli.resolve_job_hosts(path, ["--limit=b"])
    assert (list(part["hosts"]), list(part["plan"]["nodes"])) == (["b"], ["a", "b"])
    (tmp_path / "limit").write_text("b\n")
    assert list(watch_cli.resolve_job_hosts(path, [f"--limit=@{tmp_path}/limit"])["hosts"]) == ["b"]
    with pytest.raises(ValueError, match="no node matches --limit c"):
        watch_cli.resolve_job_hosts(path, ["--limit=c"])


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["watch"]) == 2
    assert cli.main(["watch", "--within", "0", "--", "true"]) == 2
    assert capsys.readouterr().err.count("[WA-105]") == 2
    assert cli.main(["watch", "-i", "no/inventory", "--", "true"]) == 2
    said = capsys.readouterr().err
    assert "[CL-106]" in said
    assert "old spelling" not in said
    assert cli.main(["watch", "--probe", "no/inventory", "--", "true"]) == 2
    said = capsys.readouterr().err
    assert "watch --probe INVENTORY is now watch -i INVENTORY. The old spelling works" in said
    assert "[CL-106]" in said


def test_watch_without_an_inventory_becomes_the_watch_of_this_machine() -> None:
    command = [sys.executable, "-m", "fullmesh", "watch", "--", "sh", "-c", "pwd; exit 9"]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        cwd="/tmp",  # noqa: S108 (any directory that is not the checkout)
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (9, "/tmp\n", "")  # noqa: S108


def test_a_diagnosis_beside_a_job_ignores_the_job() -> None:
    listed = [{"code": code, "cause": "it listens", "fix": "x"} for code in ("DG-130", "DG-113")]
    assert watch_cli.list_diagnosis_causes(json.dumps({"findings": listed})) == [
        "[DG-113] it listens. x"
    ]
    assert "ended without a result" in watch_cli.list_diagnosis_causes("no json")[0]


def test_the_modules_are_the_ones_that_the_role_brings() -> None:
    text = (ROOT / "roles/launchers/vars/main.yml").read_text()
    for name in watch_remote.MODULES:
        assert name in text
