"""Query running ranks: the hook in their process, the view from outside, and the way to the controller.

The ranks are real Python processes with the real hook. Torch is a stand-in with a recorded Flight
Recorder (a fake). tests/hang has real torch on two nodes.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fullmesh_hang
import fullmesh_hang_answer as hang_answer
import fullmesh_hang_look as hang_look
import hang_records
import pytest
from hang_ranks import (
    MASTER,
    READY,
    RECORDED,
    WAIT,
    Start,
    hide_other_sessions,
    ranks_in,
    recorded_rank,
)
from ladder_samples import plan
from record_files import load_record

from fullmesh import cli
from fullmesh.hang import ask
from fullmesh.hang.judge import judge_job
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.hang import NodeHang, Rank
from fullmesh.verbs import hang as hang_cli


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Return a function that starts Python with the hook, as a launcher does."""
    sessions = hide_other_sessions(monkeypatch)
    with ranks_in(tmp_path) as begin:

        def start_in_session(*args: Any, **env: str) -> subprocess.Popen[str]:
            process = begin(*args, **env)
            sessions.append(process.pid)
            return process

        yield start_in_session


# --- the hook -----------------------------------------------------------------------------------


def test_a_rank_reports_its_position(start: Start) -> None:
    script = recorded_rank(1) + "def work():\n    " + WAIT.replace("\n", "\n    ") + "\nwork()\n"
    process = start(script, 1)
    header, record = hang_answer.query_process(process.pid)
    assert (header["rank"], header["world"], header["why"]) == (1, 2, "")
    assert header["groups"] == [{"name": "0", "desc": "default_pg", "ranks": [0, 1]}]
    assert json.loads(record) == json.loads((RECORDED / "late_sleep-1.json").read_text())
    (main,) = [one for one in header["threads"] if one["name"] == "MainThread"]
    assert header["threads"][0] == main
    assert [one["name"] for one in main["frames"][-2:]] == ["work", "<module>"]
    assert main["frames"][-1]["file"].endswith("train1.py")


# the records of torch with CUDA, whose default group has two backends
BOTH = """
gloo = sys.modules["torch._C._distributed_c10d"]
nccl_record, record = record.split(b"\\n")[:2]
gloo._dump_nccl_trace_json = lambda *_: nccl_record
"""


def with_both_records(rank: int) -> str:
    one = str(RECORDED / f"late_sleep-{rank}.json")
    return recorded_rank(rank).replace(one, str(RECORDED / f"gpu_both-{rank}.jsonl")) + BOTH


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_reports_the_records_of_both_backends(start: Start, rank: int) -> None:
    header, record = hang_answer.query_process(start(with_both_records(rank) + WAIT, rank).pid)
    assert header["why"] == ""
    entries, arrivals = hang_answer.read_records(record)
    durations = [one.pop("duration_us") for one in entries if "duration_us" in one]
    assert entries == load_record(RECORDED / "gpu_both.json")["samples"][0][rank]["entries"]
    assert [one["record"] for one in entries] == list(range(len(entries)))
    assert {one["kind"] for one in entries} == {"nccl:all_reduce", "gloo:all_reduce"}
    for one in arrivals:
        times = {
            entry["number"]: entry["created_ns"] // 1000
            for entry in entries
            if entry["kind"] == f"{one['backend']}:all_reduce"
        }
        at, known = one["created_us"], {}
        for number, gap in zip(one["numbers"], [*one["gaps_us"], 0], strict=True):
            known[number] = at
            at -= gap
        assert known.items() >= times.items()
    assert {one["backend"] for one in arrivals} == {"nccl", "gloo"}
    assert [one["durations_us"] for one in arrivals if "durations_us" in one] == [durations[::-1]]
    assert 75_000 < durations[0] < 78_000
    with pytest.raises(ValueError, match="more than 2"):
        hang_answer.read_records(b"\n".join([record, record]))


def test_a_full_record_counts_from_its_first_entry() -> None:
    record = json.loads((RECORDED / "late_sleep-1.json").read_text())
    for one in record["entries"]:
        one["record_id"] += 5000
    raw = json.dumps(record).encode()
    numbers = [one["record"] for one in hang_answer.read_records(raw)[0]]
    assert numbers == [one["record_id"] for one in record["entries"]]
    twice = [one["record"] for one in hang_answer.read_records(raw + b"\n" + raw)[0]]
    assert twice == list(range(10000, 10000 + 2 * len(numbers)))


def test_nccl_alone_has_a_record_before_torch_2_7(start: Start) -> None:
    script = with_both_records(1) + "del gloo._dump_fr_trace_json\n" + WAIT
    _, record = hang_answer.query_process(start(script, 1).pid)
    assert {one["kind"] for one in hang_answer.read_records(record)[0]} == {"nccl:all_reduce"}


@pytest.mark.parametrize("number", [-1, (1 << 63) - 1])
def test_a_first_number_that_torch_cannot_have_is_refused(number: int) -> None:
    record = json.loads((RECORDED / "late_sleep-1.json").read_text())
    record["entries"][0]["record_id"] = number
    record["entries"] = record["entries"][:1]
    raw = json.dumps(record).encode()
    with pytest.raises(ValueError, match="its first entry"):
        hang_answer.read_records(raw + b"\n" + raw)


NEW, OLD = "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"


@pytest.mark.parametrize(
    ("version", "env", "variable"),
    [
        ("2.11.0+cu130", {NEW: "0"}, NEW),
        ("2.11.0+cu130", {OLD: "0"}, NEW),
        ("2.11.0+cu130", {NEW: "2000", OLD: "0"}, ""),
        ("2.11.0+cu130", {}, ""),
        ("2.9.1", {}, NEW),
        ("2.9.1", {NEW: "2000"}, ""),
        ("2.7.1", {NEW: "2000"}, OLD),  # this version does not know the name
        ("2.7.1", {OLD: "2000"}, ""),
        ("", {NEW: "0"}, NEW),
        ("", {}, ""),
        ("9" * 5000, {NEW: "0"}, NEW),
        ("2.11.0", {NEW: "zero"}, ""),
    ],
)
def test_a_record_that_torch_does_not_keep_is_missing(
    version: str, env: dict[str, str], variable: str, start: Start, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"version": "2.10", "entries": []}')
    script = recorded_rank(1).replace(str(RECORDED / "late_sleep-1.json"), str(empty))
    torch = f"sys.modules['torch'] = types.SimpleNamespace(__version__={version!r})\n"
    start(script + torch + WAIT, 1, **env)
    (rank,) = hang_look.read_node_ranks("n1", MASTER)["ranks"]
    why = f"torch keeps no record of its collectives (set {variable}=2000 for the job)"
    assert [one["why"] for one in rank["missing"] if one["what"] == "recorder"] == [why] * bool(
        variable
    )


def test_a_job_without_records_is_not_called_idle() -> None:
    why = "torch keeps no record of its collectives (set TORCH_FR_BUFFER_SIZE=2000 for the job)"

    def change(samples: Any) -> None:
        for rank in (rank for sample in samples for rank in sample):
            rank["entries"] = []
            rank["missing"].append({"what": "recorder", "why": why})

    (finding,) = judge_job(hang_records.change_samples("gpu_link", change))
    assert finding.code == "HG-151"
    assert finding.cause == f"ranks 0, 1 (n1, n2) cannot be queried: {why}"


def test_without_torch_the_stack_is_still_reported(start: Start) -> None:
    header, record = hang_answer.query_process(start(WAIT).pid)
    assert header["why"] == "torch.distributed is not imported"
    assert (header["rank"], record) == (-1, b"")
    assert header["threads"][0]["frames"]


@pytest.mark.parametrize("env", [{"RANK": ""}, {"FULLMESH_HANG": "0"}])
def test_other_processes_get_no_hook(start: Start, env: dict[str, str]) -> None:
    process = start(
        WAIT.replace("import sys", "import sys; print(sorted(sys.modules), flush=True)"), **env
    )
    with pytest.raises(ConnectionRefusedError):
        hang_answer.query_process(process.pid)
    assert process.stdout is not None
    assert "'threading'" not in process.stdout.readline()


@pytest.mark.parametrize(
    "name", hang_look.watch_look.RANKS[0][:1] + hang_look.watch_look.RANKS[2][:1]
)
def test_ranks_of_other_launchers_get_the_hook(start: Start, name: str) -> None:
    process = start(WAIT, RANK="", **{name: "3"})
    assert hang_answer.query_process(process.pid)[0]["threads"]


def test_the_sitecustomize_that_it_hides_is_run(start: Start, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import builtins; builtins.hidden = 'seen'\n")
    path = f"{tmp_path}/hook:{other}"
    process = start(WAIT, PYTHONPATH=path)
    done = subprocess.run(
        [sys.executable, "-c", "import sys, sitecustomize; print(hidden, sitecustomize.__file__)"],
        env={"PYTHONPATH": path, "RANK": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"seen {other}/sitecustomize.py\n"
    assert hang_answer.query_process(process.pid)[0]["threads"]


def test_another_account_gets_no_data(start: Start) -> None:
    if os.geteuid():
        pytest.skip("only root can switch to another account")
    process = start(WAIT)
    child = os.fork()
    if not child:
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(hang_answer.NAME + str(process.pid))
            os._exit(len(connection.recv(10)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert hang_answer.query_process(process.pid)[0]["threads"], "it still answers its own account"


def test_a_forked_worker_has_no_socket(start: Start) -> None:
    """A query of the child would get no answer once the rank itself is gone."""
    fork = "import os, time\nif not os.fork():\n    time.sleep(60)\ntime.sleep(0.5)\n"
    process = start(fork + WAIT)
    assert hang_answer.query_process(process.pid)[0]["threads"]
    process.kill()
    process.wait()
    with pytest.raises(ConnectionRefusedError):
        hang_answer.query_process(process.pid)


def test_the_error_that_ended_the_program_is_kept(start: Start) -> None:
    script = "import atexit, sys\natexit.register(sys.stdin.read)\n" + READY
    process = start(script + "raise ValueError('no such shape')\n")
    deadline = time.monotonic() + 10
    said: dict[str, Any] = {}
    while not said.get("raised") and time.monotonic() < deadline:
        said = hang_answer.query_process(process.pid)[0]
    assert said["raised"]["text"] == "ValueError: no such shape"
    assert said["raised"]["frames"][0]["file"].endswith("train0.py")
    assert process.communicate(timeout=30)[1].count("ValueError: no such shape") == 1


def test_a_socket_name_in_use_harms_no_job(start: Start) -> None:
    """Every account may take an abstract name. The kernel tells the client that it is another process."""
    script = (
        "import os, socket, sys\n"
        + READY
        + "sys.stdin.readline()\nos.execv(sys.executable, sys.argv[:0] + "
    )
    script += f"[sys.executable, '-c', {WAIT!r}])\n"
    process = start(script, FULLMESH_HANG="0")
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(hang_answer.NAME + str(process.pid))
        taken.listen(1)
        os.environ.pop("FULLMESH_HANG", None)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(OSError, match="another process"):
            hang_answer.query_process(process.pid)


# --- from outside -------------------------------------------------------------------------------


def ranks_here() -> list[Rank]:
    return hang_look.read_node_ranks("n1", MASTER)["ranks"]


def test_ranks_of_a_node_are_found_without_their_children(start: Start) -> None:
    child = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    first = start(recorded_rank(0) + child + WAIT, 0)
    second = start(recorded_rank(1) + WAIT, 1)
    found = ranks_here()
    assert [(one["rank"], one["pid"]) for one in found] == [(0, first.pid), (1, second.pid)]
    assert all(one["process"] == "running" and one["missing"] == [] for one in found)
    waits = [entry for entry in found[0]["entries"] if not entry["retired"]]
    assert [(one["kind"], one["number"]) for one in waits] == [("gloo:all_reduce", 4)]
    assert hang_look.read_node_ranks("n1", "another")["ranks"] == []
    assert MASTER in hang_look.read_node_ranks("n1")["jobs"]


def test_jobs_without_a_run_id_are_identified_by_their_master(start: Start) -> None:
    start(recorded_rank(0) + WAIT, 0, TORCHELASTIC_RUN_ID="none")
    assert len(ranks_here()) == 1
    assert hang_look.read_node_ranks("n1", "none")["ranks"] == []


def test_a_stopped_rank_is_seen_from_outside_without_delay(start: Start) -> None:
    start(recorded_rank(0) + WAIT, 0)
    start(recorded_rank(1) + WAIT, 1).send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    well, stopped = ranks_here()
    assert time.monotonic() - begun < 3 * hang_answer.ANSWER_SECONDS
    assert well["missing"] == []
    assert stopped["native"]["state"] == "T"
    assert {one["what"] for one in stopped["missing"]} == {"recorder", "stacks"}
    assert "does not answer" in stopped["missing"][0]["why"]


def test_the_wait_of_the_main_thread_is_named(start: Start) -> None:
    start(WAIT)
    (rank,) = ranks_here()
    native = rank["native"]
    assert (native["state"], native["syscall"], native["fd"]) == ("S", "read", 0)
    assert native["target"].startswith("pipe:[")


def test_a_rank_without_hook_has_a_reason_and_a_pyspy_stack(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """py-spy is a fake with the output of version 0.4.1."""
    answer = (
        '[{"pid":7,"thread_id":1,"thread_name":"MainThread","os_thread_id":7,"active":true,"owns_gil":false,'
        '"frames":[{"name":"work","filename":"/home/user/train.py","module":null,"short_filename":"train.py",'
        '"line":88,"locals":null,"is_entry":true}]}]'
    )
    start(WAIT, FULLMESH_HANG="0")
    (rank,) = ranks_here()
    assert rank["threads"] == []
    assert "not started by a launcher of Fullmesh" in rank["missing"][0]["why"]
    (tmp_path / "py-spy").write_text(f"#!/bin/sh\necho '{answer}'\n")
    (tmp_path / "py-spy").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (rank,) = ranks_here()
    assert rank["threads"][0]["frames"] == [
        {"file": "/home/user/train.py", "line": 88, "name": "work"}
    ]
    assert [one["what"] for one in rank["missing"]] == ["recorder"]


def test_the_newest_and_all_open_operations_are_kept() -> None:
    raw = json.loads((RECORDED / "healthy-0.json").read_text())
    entries = [hang_answer.read_entry(one) for one in raw["entries"]]
    assert len(entries) > hang_answer.NEWEST
    entries[0]["retired"] = False
    kept = hang_answer.choose_entries(entries)
    assert kept[0] == entries[0]
    assert [one["record"] for one in kept] == sorted(one["record"] for one in kept)
    newest = {one["group"]: one for one in entries}
    assert all(one in kept for one in newest.values())
    assert len(kept) <= hang_answer.MOST


def test_a_healthy_rank_costs_less_than_three_kilobytes(start: Start) -> None:
    start(recorded_rank(0, "healthy") + WAIT, 0)
    start(recorded_rank(1, "healthy") + WAIT, 1)
    found = hang_look.read_node_ranks("n1", MASTER)
    assert len(found["ranks"][0]["entries"]) == hang_answer.NEWEST
    assert len(fullmesh_hang.pack_answer(found)) < 2 * 3072


# --- the program on a node ------------------------------------------------------------------------


def test_a_node_lists_its_ranks_as_text(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    start(recorded_rank(0) + WAIT, 0)
    second = start("\n" * 87 + WAIT.replace("\n", ";", 1), 1)
    assert fullmesh_hang.main(["--job", MASTER]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert "in gloo:all_reduce 4 of default_pg for " in first
    assert f"rank 1 (process {second.pid}): at " in last
    assert "train1.py:88 (<module>)" in last
    assert "recorder: torch.distributed is not imported" in last
    assert fullmesh_hang.main(["--job", "no-such-job"]) == 1
    assert "no rank of a job" in capsys.readouterr().err


# --- on the controller ----------------------------------------------------------------------------


def test_a_node_takes_the_requested_number_of_samples(start: Start) -> None:
    """The real program runs, in a local shell."""
    start(recorded_rank(0) + WAIT, 0)
    start(recorded_rank(1) + WAIT, 1)
    answer = ask.query_hang_node("el1", {"connection": "local"}, MASTER, [0.2])
    assert answer.why == ""
    assert [len(look["ranks"]) for look in answer.looks] == [2, 2]
    assert answer.looks[0]["host"] == "el1"
    assert answer.looks[0]["ranks"][0]["taken_ns"] < answer.looks[1]["ranks"][0]["taken_ns"]
    clocks = [rank["clock"] for look in answer.looks for rank in look["ranks"]]
    # the same clock, minus the time of transmission
    assert all(one == clocks[0] and -(10**9) < one["ahead_ns"] < 0 for one in clocks)


def test_the_times_of_a_node_are_read_with_their_arrival() -> None:
    printed = ask.CommandOutput(bytearray(), bytearray())
    lines = [
        f"{fullmesh_hang.CLOCK}1000",
        "something else",
        f"{fullmesh_hang.CLOCK}{10**19}",
        f"{fullmesh_hang.CLOCK}-5",
        f"{fullmesh_hang.CLOCK}7" + "0" * 100,
        f"{fullmesh_hang.CLOCK}2000",
        f"{fullmesh_hang.CLOCK}3000 without an end",
    ]
    printed.out += "\n".join(lines).encode()
    half = len(lines[0]) + 1
    printed.arrived += [(half - 3, 11), (half, 12), (len(printed.out), 13)]
    assert ask.read_stamps(printed) == [(1000, 12), (2000, 13)]


def test_a_node_cannot_report_its_own_clock_offset() -> None:
    rank = hang_records.load("healthy")[0][0]
    rank["clock"] = {"ahead_ns": 5, "doubt_ns": 0}
    answer: NodeHang = {"host": "n1", "jobs": [], "ranks": [rank]}
    assert "clock" not in ask.set_clock(answer, None)["ranks"][0]


def test_an_unreachable_node_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ask.remote, "build_ssh_command", lambda *_: ["sh", "-c", "echo 'no route' >&2; exit 255"]
    )
    answer = ask.query_hang_node("el1", {}, "", [])
    assert answer.why == "ssh or its Python failed: no route"
    monkeypatch.setattr(ask.remote, "build_ssh_command", lambda *_: ["sleep", "5"])
    monkeypatch.setattr(ask, "SECONDS", 0.2)
    assert "did not answer" in ask.query_hang_node("el1", {}, "", []).why


def pack_answer(data: object) -> str:
    return ask.MARK + base64.b64encode(zlib.compress(json.dumps(data).encode())).decode()


def make_absent_rank(rank: int = 0) -> Rank:
    return ask.make_absent_rank(rank, 2, "el1", "", gone=False)


@pytest.mark.parametrize(
    "line",
    [
        ask.MARK + "no base64!",
        ask.MARK + base64.b64encode(b"no zlib").decode(),
        pack_answer({"host": "n"}),
        pack_answer({"host": "n", "jobs": [], "ranks": [], "more": 1}),
    ],
)
def test_a_malformed_answer_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        ask.parse_node_hang(line, "el1")


@pytest.mark.parametrize("change", [{"rank": -1}, {"host": "$(reboot)"}, {"more": 1}])
def test_a_malformed_rank_is_skipped(change: dict[str, Any]) -> None:
    ranks = [make_absent_rank(), {**make_absent_rank(1), **change}]
    found = ask.parse_node_hang(pack_answer({"host": "n", "jobs": [], "ranks": ranks}), "el1")
    assert [one["rank"] for one in found["ranks"]] == [0]
    assert "record cannot be read" in found["left_out"][0]["why"]


def test_an_answer_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="has more than"):
        ask.parse_node_hang(pack_answer("x" * 5000), "el1")


def make_node_answer(host: str, *ranks: Rank) -> NodeHang:
    return {"host": host, "jobs": [MASTER], "ranks": list(ranks)}


def running(rank: int, world: int = 2) -> Rank:
    return {**make_absent_rank(rank), "world": world, "process": "running", "missing": []}


PLAN: ClusterPlan = plan(2)


def test_missing_ranks_are_gone_or_on_unqueried_nodes() -> None:
    answers = [
        ask.HangAnswer("el1", (make_node_answer("el1", running(0)),)),
        ask.HangAnswer("ubuntu1", why="no route"),
    ]
    ((first, second),) = ask.collect_samples(PLAN, answers)
    assert (first["rank"], first["process"]) == (0, "running")
    assert (second["rank"], second["host"], second["process"]) == (1, "ubuntu1", "unasked")
    assert second["missing"] == [{"what": "process", "why": "no route"}]
    answers[1] = ask.HangAnswer("ubuntu1", (make_node_answer("ubuntu1"),))
    assert ask.collect_samples(PLAN, answers)[0][1]["process"] == "gone"
    # if the job has another size, the nodes of its ranks are unknown
    answers[0] = ask.HangAnswer("el1", (make_node_answer("el1", running(0, world=5)),))
    assert len(ask.collect_samples(PLAN, answers)[0]) == 1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ask.HangAnswer]:
    """Replace the nodes' answers to the command."""
    answers: list[ask.HangAnswer] = []
    monkeypatch.setattr(hang_cli, "resolve_job_hosts", lambda _, _more: {"plan": PLAN, "hosts": {}})
    monkeypatch.setattr(ask, "query_hang_nodes", lambda *_: answers)
    return answers


def hang(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli.main(["hang", "-i", "inventory/prod", *words])
    out, err = capsys.readouterr()
    return code, out + err


def test_the_command_names_the_late_rank(
    start: Start, asked: list[ask.HangAnswer], capsys: pytest.CaptureFixture[str]
) -> None:
    start(recorded_rank(0) + "\n" * 20 + WAIT, 0)
    start(recorded_rank(1) + "import time\n" + READY + "time.sleep(600)\n", 1)
    time.sleep(0.2)
    here = hang_look.read_node_ranks("el1", MASTER)
    asked.append(ask.HangAnswer("el1", (here, hang_look.read_node_ranks("el1", MASTER))))
    code, said = hang(capsys)
    assert code == 1
    assert said.startswith("1. [HG-107] rank 1 (el1) sleeps at ")
    assert "all_reduce 4 of default_pg" in said.splitlines()[0]
    assert "train1.py:" in said
    assert f"job {MASTER} of account root: 2 ranks on 1 node, 2 samples: 1 cause." in said
    code, said = hang(capsys, "--json")
    (one,) = json.loads(said)["findings"]
    assert (one["code"], one["ranks"], one["number"], one["waiting"]) == ("HG-107", [1], 4, [0])
    assert one["place"].endswith("train1.py:" + said.split("train1.py:")[1].split(",")[0])
    assert one["page"] == "docs/causes/hang.md#hg-107"


def test_the_page_is_written_in_addition_to_the_output(
    start: Start, asked: list[ask.HangAnswer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    start(recorded_rank(0) + WAIT, 0)
    start(recorded_rank(1) + "import time\n" + READY + "time.sleep(600)\n", 1)
    asked.append(
        ask.HangAnswer(
            "el1",
            (hang_look.read_node_ranks("el1", MASTER), hang_look.read_node_ranks("el1", MASTER)),
        )
    )
    code, said = hang(capsys, "--html", str(tmp_path / "job.html"))
    assert (code, "[HG-107]" in said) == (1, True)
    assert "all_reduce 4" in (tmp_path / "job.html").read_text()
    code, said = hang(capsys, "--html", str(tmp_path / "no/such/job.html"))
    assert (code, "[HG-185]" in said, "[HG-107]" in said) == (2, True, True)


def test_the_command_refuses_invalid_options(
    asked: list[ask.HangAnswer], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.append(ask.HangAnswer("el1", (make_node_answer("el1"),)))
    asked.append(ask.HangAnswer("ubuntu1", why="no route"))
    code, said = hang(capsys)
    assert (code, "[HG-181]" in said, "ubuntu1: no route" in said) == (2, True, True)
    for words in (("--samples", "0"), ("--looks", "0"), ("--stalled", "-1")):
        code, said = hang(capsys, *words)
        assert (code, "[HG-183]" in said) == (2, True)

    def unreadable(_: Path, _more: list[str]) -> None:
        raise ValueError("no such group")

    monkeypatch.setattr(hang_cli, "resolve_job_hosts", unreadable)
    code, said = hang(capsys)
    assert (code, "[HG-184]" in said, "no such group" in said) == (2, True, True)
    assert cli.main(["hang", "-i", "no/such"]) == 2
    assert "[CL-106]" in capsys.readouterr().err
