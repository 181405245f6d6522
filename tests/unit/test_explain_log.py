"""explain-log: recorded messages of real jobs, what they mean, and what no log may do to the tool."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fullmesh import cli
from fullmesh.causes.logs import MOST_LINES, ExplainOptions, RecordedLog, Severity
from fullmesh.explain import judge, reader
from fullmesh.explain.unpack import UnreadableLogError
from fullmesh.observed.ports import PortRange
from fullmesh.printed import CONTROL, clean_and_shorten
from fullmesh.settings import ROOT
from fullmesh.verbs import explain as explain_cli

RANGE = PortRange(50000, 54095)


def verdict_of(*texts: str, options: ExplainOptions | None = None) -> judge.LogVerdict:
    """The verdict over some logs, named rank0.log, rank1.log and so on."""
    tally = judge.Tally(options or ExplainOptions())
    for number, text in enumerate(texts):
        for block in reader.split_blocks(iter([text])):
            tally.take(f"rank{number}.log", block)
    return judge.judge_logs(tally)


def list_heads(verdict: judge.LogVerdict) -> list[str]:
    """The codes of the heads in order."""
    return [head.code for head in verdict.heads]


def list_folded(verdict: judge.LogVerdict) -> list[str]:
    """The codes of what follows from the heads."""
    return sorted(child.code for head in verdict.heads for child in head.follows)


def list_harmless(verdict: judge.LogVerdict) -> list[str]:
    """The codes of the harmless warnings."""
    return [finding.code for finding in verdict.harmless]


def c10d_timeout(host: str, port: int) -> str:
    return (
        "[E socket.cpp:957] [c10d] The client socket has timed out after 600000ms while"
        f" trying to connect to ({host}, {port})."
    )


def torchrun(rank: int, host: str, exitcode: int, traceback: str) -> str:
    return (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "============================================================\n"
        "train.py FAILED\n------------------------------------------------------------\n"
        "Failures:\n  <NO_OTHER_FAILURES>\n"
        "------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
        f"  time      : 2025-05-21_15:43:03\n  host      : {host}\n  rank      : {rank} (local_rank: 0)\n"
        f"  exitcode  : {exitcode} (pid: 14750)\n  error_file: <N/A>\n  traceback : {traceback}\n"
        "============================================================\n"
    )


GLOO = (
    "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/"
)
SIGKILL = "Signal 9 (SIGKILL) received by PID 14750"
WATCHDOG = (
    "[rank{0}]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog"
    " caught collective operation timeout:"
    " WorkNCCL(SeqNum={1}, OpType={2}, NumelIn=5056, NumelOut=5056, Timeout(ms)=600000)"
    " ran for 600026 milliseconds before"
    " timing out."
)

# recorded texts that name nothing
FINE = {
    "EFA alone": "n:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa",
    "its source line in a traceback": '    raise ValueError("trying to initialize the default process group twice!")',
    "nccl retries that helped": (
        "zgiot:1:2 [0] NCCL INFO socketPollConnect: connect returned Connection refused, "
        "retrying (2/34) after sleep for 200 msec"
    ),
    "nccl docker0 in a job that works": "node1:12:12 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>",
    "firewall log of a stranger": (
        "kernel: [UFW BLOCK] IN=eth0 OUT= MAC=00 SRC=203.0.113.9 DST=10.77.0.11 LEN=60 "
        "PROTO=TCP SPT=41000 DPT=23"
    ),
    "docker inspect of a good container": '"OOMKilled": false,',
    "cuda oom that was handled": "CUDA out of memory, trying batch size 8",
    "not all at the barrier yet": (
        "Waiting in store based barrier to initialize process group for rank: 0, key: "
        "store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)"
    ),
    "bridges of containers that do no harm": (
        "n:1:2 [0] NCCL INFO NET/Socket : Using [0]eth1:10.77.0.11<0> "
        "[1]br-05ab815fa14e:172.19.0.1<0>"
    ),
    "somaxconn is fine": "[I] listen backlog: somaxconn is 4096",
}
RECORDED = {
    **{
        case.name: replace(case, heads=(cause.code,) if case.heads is None else case.heads)
        for cause in judge.CAUSES.values()
        for case in cause.recorded
    },
    **{name: RecordedLog(name, text, ()) for name, text in FINE.items()},
}

HEALTHY = """\
*****************************************
Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being \
overloaded, please further tune the variable for optimal performance in your application as needed.
*****************************************
node1:47853:47853 [0] NCCL INFO Bootstrap : Using eth1:10.77.0.11<0>
node1:47853:47853 [0] NCCL INFO NET/Socket : Using [0]eth1:10.77.0.11<0>
NCCL version 2.20.5+cuda12.4
node1:47853:47853 [0] NCCL INFO comm 0x7f132405ad20 rank 0 nranks 2 cudaDev 0 busId 1a000 - Init COMPLETE
Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2
[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1
Epoch 1:  50%|#####     | 10/20 [00:29<00:29, 2.83s/it]\rEpoch 1: 100%|##########| 20/20 [00:58<00:00, 2.83s/it]
INFO: 5 clients joined the meeting, rank 3 of 4, timed out 0 times, ImportError: handled
INFO: the health check has been waiting for clients. It timed out after 3 seconds waiting for clients to reconnect
"""


@pytest.mark.parametrize("case", RECORDED, ids=str)
def test_recorded_messages(case: str) -> None:
    recorded = RECORDED[case]
    verdict = verdict_of(recorded.text)
    assert tuple(list_heads(verdict)) == recorded.heads
    assert tuple(list_folded(verdict)) == recorded.folded
    assert tuple(list_harmless(verdict)) == recorded.harmless


@pytest.mark.parametrize("case", RECORDED, ids=str)
def test_recorded_messages_in_colours_and_windows_line_ends(case: str) -> None:
    recorded = RECORDED[case]
    text = recorded.text
    coloured = "\r\n".join(f"\x1b[36mstderr\x1b[0m {line}\x1b[K" for line in text.split("\n"))
    if "rank      :" in text or text.startswith("[1]"):
        return  # torchrun's block and a prefix at the line's start are never coloured
    verdict = verdict_of(coloured)
    assert tuple(list_heads(verdict)) == recorded.heads
    assert tuple(list_harmless(verdict)) == recorded.harmless


def test_a_healthy_log_has_no_finding() -> None:
    verdict = verdict_of(HEALTHY, HEALTHY.replace("node1", "node2").replace("0.11", "0.12"))
    assert not verdict.bad
    assert not verdict.harmless


def test_every_sample_line_gives_its_own_cause() -> None:
    """The pages' examples give their own cause and no other."""
    for code, cause in judge.CAUSES.items():
        for line in cause.examples:
            tally = judge.Tally(ExplainOptions())
            for block in reader.split_blocks(iter([line])):
                tally.take("x", block)
            assert {key[0] for key in tally.findings} == {code}, line
            verdict = judge.judge_logs(tally)
            if not cause.only_with and cause.least == 1:
                assert [*list_heads(verdict), *list_harmless(verdict)] == [code], line


def test_only_a_cause_explains_a_cause() -> None:
    for code, cause in judge.CAUSES.items():
        # a crash explains the errors of the peers, although its own reason is not in the log
        if cause.severity != Severity.CAUSE and code != "LG-307":
            explained = [judge.CAUSES[c] for one in cause.explains for c in one.codes]
            assert all(one.severity != Severity.CAUSE for one in explained), code


# Reading


def test_line_numbers_hold_across_blocks() -> None:
    filler = "x" * 99 + "\n"
    text = filler * 2000 + RECORDED["seed 3: rank"].text
    tally = judge.Tally(ExplainOptions())
    for block in reader.split_blocks(
        text[start : start + 997] for start in range(0, len(text), 997)
    ):
        tally.take("log", block)
    assert judge.judge_logs(tally).heads[0].evidence[0].line == 2001


@pytest.mark.parametrize("before", [0, 100, 65500, 65536 - 1040, 65536 - 20, 200000])
def test_a_message_in_an_endless_line(before: int) -> None:
    text = "y" * before + " " + RECORDED["seed 2: clients"].text + " " + "z" * 100000
    tally = judge.Tally(ExplainOptions())
    for block in reader.split_blocks(
        text[start : start + 4096] for start in range(0, len(text), 4096)
    ):
        tally.take("log", block)
    (head,) = judge.judge_logs(tally).heads
    assert (head.code, head.count, head.evidence[0].line) == ("LG-201", 1, 1)
    assert len(head.evidence[0].text) <= 300


def read_bytes(data: bytes, tmp_path: Path) -> tuple[judge.LogVerdict, reader.Log]:
    path = tmp_path / "log"
    path.write_bytes(data)
    log, tally = reader.Log("log"), judge.Tally(ExplainOptions())
    for block in reader.read_log_blocks(log, path, time.monotonic() + 60):
        tally.take("log", block)
    return judge.judge_logs(tally), log


CLIENTS = RECORDED["seed 2: clients"].text


@pytest.mark.parametrize(
    "data",
    [
        CLIENTS.encode("utf-16"),
        gzip.compress(CLIENTS.encode()),
        gzip.compress(b"nothing\n") + gzip.compress(CLIENTS.encode()),
        b"\xff\xfe\x80 caf\xe9 \xf0\x9f" + b"\n\0\0\n" + CLIENTS.encode() + b"\xe2\x82",
        b"\xef\xbb\xbf" + CLIENTS.replace("clients joined", "clients\x1b[0m joined").encode(),
        (CLIENTS + "\r" + CLIENTS + "\r").encode(),
    ],
    ids=["utf-16", "gzip", "two gzips", "mixed", "mark and colour", "carriage returns"],
)
def test_odd_encodings(data: bytes, tmp_path: Path) -> None:
    if data.startswith(b"\xff\xfe\x80"):
        data = data[2:]  # two bytes that would be UTF-16's mark
    verdict, _ = read_bytes(data, tmp_path)
    assert list_heads(verdict) == ["LG-201"]


def test_a_truncated_archive_gives_its_readable_part(tmp_path: Path) -> None:
    packed = gzip.compress((CLIENTS + "\n").encode() + random.Random(1).randbytes(200000))  # noqa: S311 (bytes, no secret)
    verdict, log = read_bytes(packed[:100000], tmp_path)
    assert list_heads(verdict) == ["LG-201"]
    assert "truncated" in log.note
    _, damaged = read_bytes(packed[:5000] + b"\0" * 5000 + packed[10000:], tmp_path)
    assert "damaged" in damaged.note


def test_an_empty_log_is_named(tmp_path: Path) -> None:
    verdict, log = read_bytes(b"", tmp_path)
    assert not verdict.bad
    assert log.note == "it is empty"


def test_the_deadline_ends_an_idle_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    holder = os.open(pipe, os.O_RDWR)
    try:
        os.write(holder, CLIENTS.encode() + b"\n")
        log, tally = reader.Log("pipe"), judge.Tally(ExplainOptions())
        for block in reader.read_log_blocks(log, pipe, time.monotonic() + 0.3):
            tally.take("pipe", block)
    finally:
        os.close(holder)
    assert list_heads(judge.judge_logs(tally)) == ["LG-201"]
    assert "deadline" in log.note


def lots(size: int) -> Iterator[str]:
    """A synthetic log: progress, noise, colours, and now and then an error."""
    noise = "".join(
        f"\x1b[32m[rank{n % 8}]\x1b[0m: step {n} loss 0.{n} Connect to peers, errno 0, rank {n % 8} returned ok\n"
        for n in range(600)
    )
    sent = 0
    while sent < size:
        yield noise
        sent += len(noise)
        yield (
            WATCHDOG.format(sent % 8, sent, "ALLREDUCE")
            + "\n"
            + CLIENTS.replace("1801", str(sent))
            + "\n"
        )


@pytest.mark.rest
def test_memory_is_bounded_for_any_size() -> None:
    tally = judge.Tally(ExplainOptions())
    for block in reader.split_blocks(lots(1_000_000)):
        tally.take("log", block)  # compiles the patterns
    tally = judge.Tally(ExplainOptions())
    tracemalloc.start()
    try:
        for block in reader.split_blocks(lots(50_000_000)):
            tally.take("log", block)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000
    assert list_heads(judge.judge_logs(tally)) == ["LG-201"]


def test_findings_of_a_hostile_log_are_bounded() -> None:
    text = "\n".join(
        f"SO_ERROR: No route to host, remote=[10.{n >> 16}.{n >> 8 & 255}.{n & 255}]:10653$1"
        for n in range(5000)
    )
    verdict = verdict_of(text)
    assert len(verdict.heads) <= judge.MOST_KEYS
    assert all(len(head.evidence) <= MOST_LINES for head in verdict.heads)


# The command line


def run(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main(argv)
    out, err = capsys.readouterr()
    return code, out, err


def write(tmp_path: Path, name: str, text: str) -> str:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return str(tmp_path / name)


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path, "good.log", HEALTHY)
    quiet = write(tmp_path, "quiet.log", RECORDED["seed 4: plugin"].text)
    bad = write(tmp_path, "bad.log", CLIENTS)
    code, out, _ = run(["explain-log", good], capsys)
    assert (code, "nothing wrong found" in out) == (0, True)
    code, out, _ = run(["explain-log", quiet], capsys)
    assert code == 0
    assert "Harmless" in out
    assert "[LG-901]" in out
    code, out, _ = run(["explain-log", good, bad], capsys)
    assert code == 1
    assert out.startswith("1. [LG-201]")
    assert f"{bad}:1: " in out
    assert "page:     ./fullmesh explain LG-201" in out


def test_usage_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path, "good.log", HEALTHY)
    code, _, err = run(["explain-log", str(tmp_path / "none.log")], capsys)
    assert (code, "[CL-110]" in err) == (2, True)
    code, _, err = run(["explain-log", good, "--data-ports", "5-x"], capsys)
    assert (code, "[CL-111]" in err) == (2, True)
    code, _, err = run(["explain", "LG-10"], capsys)
    assert (code, "[CL-109]" in err, "LG-101" in err) == (2, True, True)


def test_an_unreadable_log_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = write(tmp_path, "bad.log", CLIENTS)
    code, out, err = run(["explain-log", str(tmp_path / "none.log"), bad], capsys)
    assert (code, "[LG-201]" in out, "[CL-110]" in err) == (1, True, True)


def test_a_directory_includes_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "attempt_0/1").mkdir(parents=True)
    write(tmp_path, "attempt_0/1/stderr.log", CLIENTS)
    code, out, _ = run(["explain-log", str(tmp_path)], capsys)
    assert code == 1
    assert "attempt_0/1/stderr.log:1" in out


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = write(tmp_path, "a.log", RECORDED["gloo refused, and the passive side"].text)
    code, out, _ = run(["explain-log", "--json", both], capsys)
    data = json.loads(out)
    assert (code, data["schema"]) == (1, explain_cli.SCHEMA)
    (finding,) = data["findings"]
    assert finding["code"] == "LG-103"
    assert finding["severity"] == "cause"
    assert finding["evidence"][0]["line"] == 1
    assert [child["code"] for child in finding["follows"]] == ["LG-105"]
    assert data["logs"][0]["bytes"] > 0


def test_stdin_and_names_relative_to_the_user(tmp_path: Path) -> None:
    write(tmp_path, "mine.log", "nothing\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "fullmesh", "explain-log", "-", "mine.log"],
        cwd=tmp_path,
        env=env,
        input=CLIENTS.encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert b"stdin:1" in done.stdout
    assert b"2 logs read" in done.stdout


HOSTILE = st.lists(
    st.one_of(
        st.sampled_from([line for cause in judge.CAUSES.values() for line in cause.examples]).map(
            str.encode
        ),
        st.sampled_from(
            [pattern.needle for cause in judge.CAUSES.values() for pattern in cause.patterns]
        ).map(str.encode),
        st.binary(max_size=200),
        st.sampled_from(
            [
                b"\n",
                b"\r",
                b"\0",
                b"\x1b[31m",
                b"\x1b]0;title\x07",
                b"\xff\xfe",
                b"\x9b2J",
                b"9" * 400,
                b"\xe2\x80\xae",
                b"[",
            ]
        ),
        st.integers(1, 90000).map(lambda size: b"x" * size),
    ),
    max_size=12,
).map(b"".join)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=HOSTILE, cut=st.integers(1, 5000), packed=st.booleans())
def test_no_log_crashes_it_or_reaches_the_terminal(data: bytes, cut: int, packed: bool) -> None:
    raw = gzip.compress(data)[:-1] if packed else data
    log = reader.Log("log")
    chunks = iter([raw[start : start + cut] for start in range(0, len(raw), cut)])
    tally = judge.Tally(ExplainOptions(RANGE))
    with contextlib.suppress(UnreadableLogError):  # bytes may look like an archive that is refused
        for block in reader.split_blocks(reader.decode_log(reader.unpack_log(chunks, log))):
            tally.take("log", block)
    verdict = judge.judge_logs(tally)
    out = explain_cli.render_verdict(verdict, [log])
    assert not CONTROL.search(out.replace("\n", ""))
    json.loads(explain_cli.verdict_to_json(verdict, [log]))


def test_values_from_a_log_cannot_command_the_terminal() -> None:
    text = "environment variable RANK\x9b expected, but not set\n" + c10d_timeout(
        "a\x9b2Jb\u202e", 29500
    )
    out = explain_cli.render_verdict(verdict_of(text), [])
    assert not CONTROL.search(out.replace("\n", ""))
    assert "\\x9b" in out


def test_values_from_a_log_do_not_become_commands() -> None:
    head = verdict_of(c10d_timeout("x;reboot", 29500)).heads[0]
    assert "x;reboot" in head.sentence
    assert "reboot" not in head.prove + head.fix
    assert "On HOST, while the job starts" in head.prove


def test_clean_cuts_in_the_middle() -> None:
    assert clean_and_shorten("a" * 1000).count("a") < 240
    assert clean_and_shorten("a\x07b") == "a\\x07b"


def test_two_readers_do_not_share_state() -> None:
    results: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: results.append(list_heads(verdict_of(CLIENTS))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [["LG-201"]] * 4
