"""The program `fullmesh-check`: nothing makes it hang, and it costs next to nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fullmesh_check
import fullmesh_check_node as check_node
import fullmesh_hang_calls as hang_calls
import pytest
from fullmesh_check_node import HealthFinding

from fullmesh.codes import NODE_CODES
from fullmesh.settings import ROOT

PROGRAMS = ROOT / "node_programs"
FUSE = ROOT / "tests/support/stalled_files.py"
CHILD_SECONDS = f"777.{os.getpid()}"  # another run of these tests has its own children
BUSY = 10.0  # seconds where 2 are promised: other processes of this machine delay a test
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs namespaces of its own")


def find_nothing() -> Iterator[HealthFinding]:
    yield from ()


def find_broken_gpu() -> Iterator[HealthFinding]:
    yield HealthFinding("HC-102", "a GPU\x1b[2J is gone", "look")


def find_isolation() -> Iterator[HealthFinding]:
    peers = tuple(f"n{number}".ljust(253, "x") for number in range(1024))
    yield HealthFinding("HC-161", "no peer answers", "look", peers)


def sleeping() -> Iterator[HealthFinding]:
    time.sleep(60)
    yield from ()


def compute_forever() -> Iterator[HealthFinding]:
    while True:
        pass


def raising() -> Iterator[HealthFinding]:
    raise KeyError("surprise")


def raising_later() -> Iterator[HealthFinding]:
    yield from find_broken_gpu()
    raise KeyError("surprise")


def killed() -> Iterator[HealthFinding]:
    os._exit(9)


def with_a_child() -> Iterator[HealthFinding]:
    subprocess.run(["sleep", CHILD_SECONDS], check=True)
    yield from ()


@pytest.mark.parametrize(
    ("checks", "status", "words"),
    [
        ([find_nothing], 0, "is fit for jobs (check0)"),
        (
            [find_nothing, find_broken_gpu],
            1,
            "is not fit for jobs: [HC-102] a GPU?[2J is gone. Fix: look",
        ),
        ([find_broken_gpu, sleeping], 1, "[HC-102]"),
        ([find_nothing, sleeping], 2, "could not be checked: check1: no result in"),
        ([with_a_child], 2, "no result in"),
        ([compute_forever], 2, "check0: "),
        ([raising], 2, "KeyError: 'surprise'"),
        ([raising_later], 1, "[HC-102]"),
        ([killed], 2, "it ended without a result"),
        ([find_isolation], 1, "[HC-161] no peer answers"),
    ],
)
def test_the_verdict_and_its_deadline(
    checks: list[Any],
    status: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = {f"check{at}": one for at, one in enumerate(checks)}
    monkeypatch.setattr(fullmesh_check, "list_checks", lambda *_, **_kw: named)
    monkeypatch.setattr(fullmesh_check, "measure_age", lambda: 0.85)
    begun, before = time.monotonic(), dict(os.environ)
    assert fullmesh_check.main([]) == status
    assert time.monotonic() - begun < BUSY
    assert os.environ == before
    said = capsys.readouterr().out
    assert words in said
    assert said.count("\n") == 1
    assert fullmesh_check.main(["--json"]) == status
    document = json.loads(capsys.readouterr().out)
    assert document["fit"] is {0: True, 1: False, 2: None}[status]
    assert document["checks"].keys() == named.keys()
    assert subprocess.run(["pgrep", "-f", f"sleep {CHILD_SECONDS}"], check=False).returncode == 1


HANGS = f"""
import subprocess, sys, time; sys.path.insert(0, {str(PROGRAMS)!r})
import fullmesh_check
sys.exit(fullmesh_check.main(["--json"]))
"""


@as_root
def test_a_mount_that_hangs_is_named(tmp_path: Path) -> None:
    """A real one (FUSE), whose daemon is stopped."""
    if not os.path.exists("/dev/fuse"):
        pytest.skip("no /dev/fuse")
    script = (
        f"{sys.executable} {FUSE} {tmp_path} & fuse=$!; "
        f"for i in $(seq 50); do grep -q '{tmp_path} ' /proc/mounts && break; sleep 0.1; done; "
        f'kill -STOP $fuse; {sys.executable} -c "$0"; status=$?; kill -KILL $fuse; exit $status'
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, HANGS],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    document = json.loads(done.stdout)
    (name,) = (one for one in document["checks"] if one.startswith(f"mount {tmp_path} (fuse"))
    assert document["checks"][name]["findings"][0]["code"] == "HC-143", document
    assert done.returncode == 1


@pytest.fixture
def stuck_mount(tmp_path: Path) -> Iterator[Path]:
    """A mount (FUSE) whose server has read a request and never answers: not even SIGKILL ends a process there."""
    if not os.path.exists("/dev/fuse"):
        pytest.skip("no /dev/fuse")
    folder = tmp_path / "data"
    folder.mkdir()
    server = subprocess.Popen([sys.executable, str(FUSE), str(folder), "never"])
    while f"{folder} " not in Path("/proc/mounts").read_text():
        assert server.poll() is None
        time.sleep(0.05)
    yield folder
    server.kill()
    server.wait()
    subprocess.run(["umount", "-l", str(folder)], check=False)


def count_stuck(name: str) -> int:
    mark = fullmesh_check.mark_check(name)
    return sum(f"({mark}) D" in path.read_text() for path in Path("/proc").glob("[0-9]*/stat"))


@as_root
def test_a_check_that_cannot_be_killed_does_not_block_the_caller(stuck_mount: Path) -> None:
    """Slurm, ssh and a pipe wait until every process has closed the output. A second run starts no second process."""
    name = f"mount {stuck_mount} (fuse.stalled, stalled)"
    script = f"""
import os, sys; sys.path.insert(0, {str(PROGRAMS)!r})
import fullmesh_check as check
check.STUCK_SECONDS = 0
check.list_checks = lambda *_, **_kw: {{{name!r}: lambda: os.statvfs({str(stuck_mount)!r})}}
print(check.run_levels(["node"], seconds=1.0)["text"], flush=True)
os._exit(0)
"""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=20
        )
        assert f"[HC-143] {name} does not answer for" in done.stdout
        assert count_stuck(name) == 1


def test_a_check_keeps_no_file_of_its_caller(tmp_path: Path) -> None:
    """A lock, for example, which a check that hangs would hold."""
    held = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(held, True)

    def list_own_files() -> Iterator[HealthFinding]:
        links = [f"/proc/self/fd/{one}" for one in os.listdir("/proc/self/fd")]
        files = sorted({os.readlink(one) for one in links if os.path.lexists(one)})
        yield HealthFinding("HC-102", " ".join(files), "")

    results = fullmesh_check.run_checks({"files": list_own_files}, time.monotonic() + BUSY)
    os.close(held)
    null, pipe = results["files"]["findings"][0]["text"].split()
    assert null == "/dev/null"
    assert pipe.startswith("pipe:")


def test_a_check_without_standard_files_has_its_result() -> None:
    script = f"import os, sys, time; sys.path.insert(0, {str(PROGRAMS)!r}); import fullmesh_check as check\n"
    script += "kept = os.dup(1); os.closerange(0, 3)\n"
    script += "results = check.run_checks({'one': lambda: ()}, time.monotonic() + 10)\n"
    script += "os.write(kept, results['one']['state'].encode())"
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, timeout=30
    )
    assert done.stdout == b"ok"


@pytest.mark.parametrize("seconds", [0.6, 1.5])
def test_a_program_gets_the_time_of_its_check(seconds: float) -> None:
    def ask() -> Iterator[HealthFinding]:
        check_node.run_tool("sleep", "60")
        yield from ()

    begun = time.monotonic()
    results = fullmesh_check.run_checks({"slow": ask}, begun + seconds)
    said = results["slow"]["why"]
    assert said.startswith("sleep gave no answer in ")
    assert seconds / 3 < float(said.split()[5]) <= seconds - check_node.COMMAND_RESERVE + 0.05


def test_a_program_that_the_kernel_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    call = hang_calls.ThreadCall(7, "D", "nv_open_device", "openat", (0,) * 6)
    monkeypatch.setattr(hang_calls, "read_thread_call", lambda _: call)
    found = fullmesh_check.describe_unfinished("nvidia-smi", 7, 1.8)
    assert (found["state"], found["findings"][0]["code"]) == ("failed", "HC-107")
    assert "(nvidia-smi, in openat (nv_open_device))" in found["findings"][0]["text"]


def test_a_run_costs_less_than_a_second_of_the_cpu() -> None:
    """As the node starts it. The seconds are measured on an idle machine, since others delay it here."""
    script = [sys.executable, "-B", "-E", "-s", "-S", str(PROGRAMS / "fullmesh_check.py")]
    done = subprocess.run(
        [*script, "node", "links", "--json"],
        stdout=subprocess.PIPE,
        check=False,
        timeout=30,
        env={},  # as in Slurm's prolog
    )
    document = json.loads(done.stdout)
    assert document["cpu_seconds"] < 1
    assert document["levels"] == ["node", "links"]
    done = subprocess.run([*script, "bern"], stderr=subprocess.PIPE, check=False, timeout=30)
    assert done.returncode == 2
    assert b"unknown level: bern" in done.stderr


def test_every_code_of_the_check_has_a_meaning() -> None:
    said = {code for code in NODE_CODES if code.startswith("HC-")}
    texts = "".join(path.read_text() for path in PROGRAMS.glob("fullmesh_check*.py"))
    assert said == {code for code in said if f'"{code}"' in texts}
    assert all(part[:3].isdigit() and f"HC-{part[:3]}" in said for part in texts.split('"HC-')[1:])
