"""watch --on-hang: the action after each finding, the dump, and the conditions of a restart."""

from __future__ import annotations

import json
import math
import os
import queue
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import hang_records
import pytest
from hang_ranks import HOOK, recorded_rank
from ladder_samples import plan

from fullmesh import cli
from fullmesh.explain import reader
from fullmesh.faults import InvalidInputError
from fullmesh.hang import ask, dump, on_hang, stalled
from fullmesh.hang.jobs import QueriedJob, find_disputed_ranks, group_answers_by_job
from fullmesh.hang.judge import judge_job, load_hang_causes
from fullmesh.hang.on_hang import ElasticJob, HangResponse
from fullmesh.hang.recorder import read_rank_file
from fullmesh.hang.stalled import StallReporter, StallVerdict
from fullmesh.observed.hang import Rank
from fullmesh.verbs import watch as watch_cli
from fullmesh.watch.remote import JobHosts, NodeMessage, WatchedNode, start_node_job

NODES = ("n1", "n2")
ON_FIRST = ElasticJob(1, "n1")
TORCHRUN = "torchrun --nnodes=1:3 --rdzv-backend=c10d --rdzv-endpoint=el1:29400 train.py"


def load_verdict(name: str, disputed: dict[int, list[str]] | None = None) -> StallVerdict:
    """Return the result about a recorded job."""
    samples = hang_records.load(name)
    return StallVerdict([(QueriedJob("a", "u", samples), judge_job(samples))], disputed or {})


def build_job_hosts(count: int = 3) -> JobHosts:
    """Return a plan, and the connections to its nodes."""
    made = plan(count)
    return cast("JobHosts", {"plan": made, "hosts": {name: {} for name in made["nodes"]}})


# --- which finding leads to a restart -------------------------------------------------------------


@pytest.mark.parametrize("name", ["late_sleep", "late_four", "gpu_kernel", "killed", "late_data"])
def test_only_named_node_is_left_out(name: str) -> None:
    assert on_hang.choose_restart(load_verdict(name), NODES, ON_FIRST).node == "n2"


@pytest.mark.parametrize(
    ("name", "elastic", "why"),
    [
        ("late_save", ON_FIRST, "n1 has the rendezvous"),
        ("late_sleep", ElasticJob(2, "n1"), "without n2, only 1 of the 2 nodes remain"),
        ("late_two_causes", ON_FIRST, "name 2 nodes (n1, n2), not exactly one"),
        ("network", ON_FIRST, "name 2 nodes (n1, n2), not exactly one"),
        ("kinds_four", ON_FIRST, "HG-121 is an error of the program"),
        ("groups_crossed", ON_FIRST, "HG-124 is an error of the program"),
        ("send", ElasticJob(1, "n2"), "HG-141 is an error of the program"),
    ],
)
def test_a_job_does_not_start_again(name: str, elastic: ElasticJob, why: str) -> None:
    choice = on_hang.choose_restart(load_verdict(name), NODES, elastic)
    assert choice.node == ""
    assert why in choice.why_not


def test_errors_of_the_program_are_causes_that_exist() -> None:
    assert load_hang_causes().keys() >= on_hang.PROGRAM_ERRORS


def test_a_node_outside_the_job_is_never_left_out() -> None:
    for nodes in (("n1", "n3"), ()):
        choice = on_hang.choose_restart(load_verdict("late_sleep"), nodes, ON_FIRST)
        assert (choice.node, "node is not known" in choice.why_not) == ("", True)


def test_node_cannot_report_a_rank_of_another_node() -> None:
    """n1 also answers for the rank of n2, so that its data would name n2 as the cause."""
    samples = hang_records.load("late_sleep")
    answered_ranks: list[list[Rank]] = [
        samples[-1],
        [one for one in samples[-1] if one["rank"] == 1],
    ]
    answers = [
        ask.HangAnswer(name, ({"host": name, "jobs": ["a"], "ranks": ranks},))
        for name, ranks in zip(NODES, answered_ranks, strict=True)
    ]
    made = plan(2)
    jobs, _ = group_answers_by_job(made, answers)
    disputed = find_disputed_ranks(answers, jobs)
    assert disputed == {1: ["n1", "n2"]}
    choice = on_hang.choose_restart(load_verdict("late_sleep", disputed), NODES, ON_FIRST)
    assert choice == on_hang.RestartChoice(why_not="n1, n2 all say that they run rank 1")
    # a dispute about a rank in no finding changes nothing, nor do honest answers
    assert on_hang.choose_restart(
        load_verdict("late_sleep", {0: ["n1", "n2"]}), NODES, ON_FIRST
    ).node
    assert find_disputed_ranks(answers[:1], jobs) == {}


def test_jobs_with_the_same_name_prevent_a_restart() -> None:
    one = load_verdict("late_sleep")
    verdict_of_two = StallVerdict([*one.judged, *one.judged], {})
    assert "2 jobs have its name" in on_hang.choose_restart(verdict_of_two, NODES, ON_FIRST).why_not


# --- which command can start with fewer nodes -----------------------------------------------------


@pytest.mark.parametrize(
    ("command", "least", "host"),
    [
        (TORCHRUN, 1, "el1"),
        (TORCHRUN.replace("--rdzv-", "--rdzv_"), 1, "el1"),
        (TORCHRUN.replace("torchrun", "/venv/bin/python3 -m torch.distributed.run", 1), 1, "el1"),
        (TORCHRUN.replace("=", " ").replace("1:3", "2:3"), 2, "el1"),
        (TORCHRUN.replace("el1:29400", "10.78.0.12"), 1, "ubuntu1"),
        ("/opt/fullmesh/bin/fullmesh-torchrun --c10d --nnodes=1:3 train.py", 1, "el1"),
        ("fullmesh-torchrun --c10d --static --c10d --nnodes 3 --nnodes 1:3 train.py", 1, "el1"),
        ("fullmesh-torchrun --c10d -m --nnodes=1:3 package --nnodes=3", 1, "el1"),
        ("fullmesh-torchrun --c10d --nnodes=1:3 --rdzv-endpoint=ubuntu2:1 x", 1, "ubuntu2"),
    ],
)
def test_an_elastic_job_is_recognized(command: str, least: int, host: str) -> None:
    assert on_hang.parse_elastic_job(command.split(), build_job_hosts()) == ElasticJob(least, host)


@pytest.mark.parametrize(
    ("command", "faults"),
    [
        ("python train.py", ["cannot start python with fewer nodes"]),
        ("torchrun train.py --nnodes=1:3", ["range of nodes (seen: none)", "c10d", "(seen: none)"]),
        (TORCHRUN.replace("1:3", "3"), ["range of nodes (seen: 3)"]),
        (TORCHRUN.replace("1:3", "0:3"), ["range of nodes (seen: 0:3)"]),
        (TORCHRUN.replace("1:3", "3:1"), ["range of nodes (seen: 3:1)"]),
        (TORCHRUN.replace("1:3", "3:3"), ["needs 3 nodes, and the inventory has 3"]),
        (TORCHRUN.replace("el1", "elsewhere"), ["has the rendezvous (seen: elsewhere:29400)"]),
        (TORCHRUN.replace("--rdzv-backend", "--standalone --rdzv-backend"), ["--standalone"]),
        ("fullmesh-torchrun --nnodes=1:3 x", ["needs the rendezvous c10d"]),
        ("fullmesh-torchrun --c10d --static --nnodes=2 x", ["(seen: 2)", "the rendezvous c10d"]),
    ],
)
def test_all_reasons_against_a_restart_come_before_the_start(
    command: str, faults: list[str]
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        on_hang.parse_elastic_job(command.split(), build_job_hosts())
    assert len(caught.value.faults) == len(faults)
    for one, text in zip(caught.value.faults, faults, strict=True):
        assert one.code == "WA-112"
        assert text in one.text


def test_plan_without_a_node_renumbers_the_others() -> None:
    whole = build_job_hosts()
    for number, node in enumerate(whole["plan"]["nodes"].values()):
        node["local_ranks"], node["first_rank"] = 2, 2 * number
    whole["plan"]["world_size"] = 6
    reduced = on_hang.leave_out_node(whole, "ubuntu1")
    assert list(reduced["hosts"]) == ["el1", "ubuntu2"]
    assert (reduced["plan"]["world_size"], reduced["plan"]["nnodes"]) == (4, 2)
    ranks_of_nodes = [
        (n["name"], n["node_rank"], n["first_rank"]) for n in reduced["plan"]["nodes"].values()
    ]
    assert ranks_of_nodes == [("el1", 0, 0), ("ubuntu2", 1, 2)]
    assert len(whole["plan"]["nodes"]) == 3


def test_impossible_restart_is_rejected_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("torch_nodes: {hosts: {a: {fullmesh_address: 203.0.113.1/24}}}\n")
    words = ["watch", "--on-hang", "restart", "--stalled", "0", "--", "torchrun", "x"]
    assert cli.main(words) == 2
    output = capsys.readouterr().err
    assert "[WA-105] --on-hang restart needs a time" in output
    assert "[WA-112] --on-hang restart needs all nodes. Fix: Use -i INVENTORY." in output
    call = ["watch", "--on-hang", "restart", "-i", str(path), "--", "torchrun", "x"]
    assert cli.main(call) == 2
    assert capsys.readouterr().err.count("[WA-112]") == 3


# --- the dump -------------------------------------------------------------------------------------


def test_explain_log_finds_the_same_cause_in_a_dump(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = load_verdict("late_sleep")
    ranks = dump.write_hang_dump(tmp_path / "run", verdict.judged)
    found = json.loads((tmp_path / "run/hang.json").read_text())["findings"]
    assert [(one["code"], one["hosts"]) for one in found] == [("HG-107", ["n2"])]
    assert read_rank_file((ranks / "rank1.json").read_bytes(), 1)["threads"]
    assert cli.main(["explain-log", "--json", str(ranks)]) == 1
    explained = json.loads(capsys.readouterr().out)["findings"]
    assert [(one["code"], one["cause"]) for one in explained] == [("HG-107", found[0]["cause"])]


def test_number_of_dumped_ranks_is_limited() -> None:
    real = hang_records.load("late_sleep")[-1]
    real[1]["rank"] = 9000
    claimed = [ask.make_absent_rank(n, 1 << 17, "n2", "", gone=True) for n in range(1, 9000)]
    selected = dump.select_dumped_ranks([*claimed, *real])
    assert [one["rank"] for one in selected[:3]] == [0, 9000, 1]
    assert len(selected) == dump.MOST_RANKS == reader.MOST_FILES


# --- what follows ---------------------------------------------------------------------------------


@dataclass
class ResponseLog:
    """The messages of the response, and the number of times that it ended the job."""

    lines: list[str] = field(default_factory=list)
    ends: int = 0

    def end(self) -> None:
        """End the job."""
        self.ends += 1


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of all runs."""
    monkeypatch.setattr(on_hang, "RUNS", tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def reporter(monkeypatch: pytest.MonkeyPatch) -> StallReporter:
    """Return a reporter whose nodes send no answer."""
    monkeypatch.setattr(stalled, "GATHER", 0.0)
    monkeypatch.setattr(ask, "query_hang_nodes", lambda *_: [])
    return StallReporter(build_job_hosts(2))


def respond_to_record(
    reporter: StallReporter, action: str, name: str = "late_sleep", **more: object
) -> tuple[HangResponse, ResponseLog]:
    """Respond to a hung job with the result of a record."""
    made = HangResponse(action, NODES, **more)  # type: ignore[arg-type]
    made.note_stall("n1", "a", "u")
    reporter.verdict, log = load_verdict(name), ResponseLog()
    made.respond(reporter, log.lines.append, log.end)
    return made, log


def test_report_does_not_end_the_job(reporter: StallReporter, runs: Path) -> None:
    _, log = respond_to_record(reporter, "report")
    assert (log.lines, log.ends, runs.exists()) == ([], 0, False)


def test_dump_is_written_once_and_the_job_continues(reporter: StallReporter, runs: Path) -> None:
    made, log = respond_to_record(reporter, "dump")
    (line,) = log.lines
    assert line.startswith("the state of all ranks is in ")
    made.respond(reporter, log.lines.append, log.end)
    assert (len(log.lines), log.ends, len(list(runs.iterdir()))) == (1, 0, 1)
    assert made.query_at == math.inf  # the cause is known


@pytest.mark.usefixtures("runs")
def test_number_of_dumps_is_limited(reporter: StallReporter) -> None:
    made, log = HangResponse("dump", NODES), ResponseLog()
    for _ in range(on_hang.MOST_DUMPS + 2):
        made.note_stall("n1", "a", "u")
        reporter.verdict = load_verdict("late_sleep")
        made.respond(reporter, log.lines.append, log.end)
    assert made.dumps == on_hang.MOST_DUMPS
    assert sum("the state of all ranks is in" in line for line in log.lines) == made.dumps


def test_stop_writes_a_dump_and_ends_the_job(reporter: StallReporter, runs: Path) -> None:
    made, log = respond_to_record(reporter, "stop")
    assert "(--on-hang stop)" in log.lines[-1]
    assert log.lines[-1].startswith("[WA-113]")
    assert (log.ends, made.ended, made.without) == (1, True, "")
    assert len(list(runs.glob("*/ranks/rank*.json"))) == 2


def test_a_restart_leaves_the_named_node_out(reporter: StallReporter, runs: Path) -> None:
    made, log = respond_to_record(reporter, "restart", elastic=ON_FIRST)
    assert (log.ends, made.without, "WA-114" in str(log.lines)) == (1, "n2", False)


def test_a_restart_that_is_not_possible_ends_the_job(reporter: StallReporter, runs: Path) -> None:
    made, log = respond_to_record(reporter, "restart", "network", elastic=ON_FIRST)
    assert (log.ends, made.without) == (1, "")
    assert log.lines[-2].startswith("[WA-114] The job does not start again: the findings name 2")
    made, log = respond_to_record(reporter, "restart", why_not="it was started again once")
    assert (log.ends, made.without) == (1, "")
    assert log.lines[-2] == "[WA-114] The job does not start again: it was started again once."


def test_failed_dump_does_not_prevent_the_stop(
    reporter: StallReporter, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.write_text("not a folder")
    _, log = respond_to_record(reporter, "stop")
    assert log.lines[0].startswith("[WA-115] The state of the ranks cannot be written")
    assert log.ends == 1


def test_continuing_job_is_not_ended(reporter: StallReporter, runs: Path) -> None:
    made = HangResponse("stop", NODES)
    made.note_stall("n1", "a", "u")
    made.note_progress("n1")
    reporter.verdict, log = load_verdict("late_sleep"), ResponseLog()
    made.respond(reporter, log.lines.append, log.end)
    # and the old result does not count for the next hang
    made.note_stall("n2", "a", "u")
    made.respond(reporter, log.lines.append, log.end)
    assert (log.lines, log.ends) == ([], 0)


def test_nodes_alone_cannot_end_a_job(
    reporter: StallReporter, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranks' own answers show no cause, so the controller queries again and ends nothing."""
    queried_jobs: list[str] = []
    monkeypatch.setattr(reporter, "begin", lambda job, _account: queried_jobs.append(job))
    made, log = HangResponse("stop", NODES), ResponseLog()
    made.note_stall("n1", "a", "u")
    made.respond(reporter, log.lines.append, log.end)
    assert queried_jobs == []
    made.query_at = time.monotonic()
    for _ in range(2):
        made.respond(reporter, log.lines.append, log.end)
    assert (queried_jobs, log.ends) == (["a"], 0)


# --- from the command to the end ------------------------------------------------------------------


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Make two nodes from this machine, and a ``torchrun``: a rank with the real hook that hangs if there are two."""
    (tmp_path / "hook").mkdir()
    shutil.copy(HOOK, tmp_path / "hook/sitecustomize.py")
    nodes = {
        name: {
            "ansible_connection": "local",
            "ansible_host": f"127.0.0.{number}",
            "ansible_python_interpreter": sys.executable,
        }
        for number, name in ((11, "node-a"), (12, "node-b"))
    }
    path = tmp_path / "hosts.yml"
    path.write_text(json.dumps({"all": {"children": {"torch_nodes": {"hosts": nodes}}}}))
    for rank in (0, 1):
        text = recorded_rank(rank) + "import time\ntime.sleep(600)\n"
        (tmp_path / f"rank{rank}.py").write_text(text)
    program = tmp_path / "torchrun"
    program.write_text(
        f"#!/bin/sh\n[ $WORLD_SIZE = 2 ] || {{ echo finished alone; exit 7; }}\n"
        f"export RANK=$NODE_RANK TORCHELASTIC_RUN_ID=on-hang-{os.getpid()}\n"
        f"export PYTHONPATH={tmp_path}/hook\nexec {sys.executable} {tmp_path}/rank$RANK.py\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(on_hang, "RUNS", tmp_path / "runs")

    def watch(*words: str) -> int:
        call = ["watch", "--stalled", "1", *words, "-i", str(path), "--", str(program)]
        return cli.main(
            [*call, "--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-endpoint=node-b:1", "x"]
        )

    return watch


def test_a_hung_job_is_dumped_and_ended_on_all_nodes(
    job: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both nodes are this machine, so each sees both ranks, and the job does not start again."""
    assert job("--on-hang", "restart") == 1
    output = capfd.readouterr()
    assert (
        "[WA-114] The job does not start again: node-a, node-b all say that they run" in output.err
    )
    assert "fullmesh watch: [WA-113] The job hangs" in output.err
    assert "finished" not in output.out
    (ranks,) = tmp_path.glob("runs/*/ranks")
    pids = [json.loads(one.read_text())["pid"] for one in ranks.iterdir()]
    assert len(pids) == 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_job_starts_once_more_without_the_named_node(
    job: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stalled, "find_disputed_ranks", lambda *_: {})
    assert job("--on-hang", "restart") == 7
    output = capfd.readouterr()
    assert output.out == "[node-b] finished alone\n"
    assert "[WA-116] The job starts again without node-a, on node-b." in output.err


@pytest.mark.parametrize(
    "case",
    [
        (0, "node-a", 2, 1),
        (0, "node-b", 1, 1),
        (signal.SIGTERM, "", 1, 143),
    ],
)
def test_a_job_only_starts_again_once_it_has_ended_elsewhere(
    job: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    case: tuple[int, str, int, int],
) -> None:
    number, unconfirmed, starts, code = case
    started: list[HangResponse] = []

    def start(*arguments: object) -> watch_cli.WatchedJob:
        response = cast("HangResponse", arguments[-1])
        response.ended, response.without = True, "" if started else "node-a"
        started.append(response)
        ended = subprocess.Popen(["true"], text=True)
        nodes = {
            name: WatchedNode(name, ended, code=255, started=True, ended=name != unconfirmed)
            for name in response.nodes
        }
        return watch_cli.WatchedJob(
            Path("x"), nodes, queue.Queue(), [], response=response, interrupted=number
        )

    monkeypatch.setattr(watch_cli, "start_on_all_nodes", start)
    assert job("--on-hang", "restart") == code
    assert [one.nodes for one in started] == [("node-a", "node-b"), ("node-b",)][:starts]
    assert all(one.elastic is None and one.why_not for one in started[1:])
    refusal = "it may still run on node-b"
    assert (refusal in capfd.readouterr().err) == (unconfirmed == "node-b")


def test_node_without_confirmation_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watch_cli, "END_GRACE", 0.5)
    output: queue.Queue[NodeMessage] = queue.Queue()
    # a process of another session holds the pipes
    nodes = {"ub1": start_node_job("ub1", ["sh", "-c", "setsid sleep 30 & exec sleep 600"], output)}
    made = watch_cli.WatchedJob(Path("x"), nodes, output, ["ub1"], diagnoses=False)
    made.response.ended = True
    made.end_on_all_nodes()
    begun = time.monotonic()
    assert watch_cli.follow_job(made) == 1
    assert time.monotonic() - begun < 20
    assert "[WA-117] ub1 has not confirmed within 0.5 s" in capfd.readouterr().err
