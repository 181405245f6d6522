"""All that a run started on a node ends with the controller, however the controller ends. With real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh import detach
from ansible.module_utils.fullmesh import lease as node_lease
from ansible.module_utils.fullmesh.probe import ranks
from test_ladder_ranks import HANG, start_ranks

from fullmesh.ask import program
from fullmesh.ask.talk import NodeQuery
from fullmesh.play.events import PID_VARIABLE
from fullmesh.settings import ROOT

# The controller: what ask_nodes does in a task of ansible-playbook, which is this process' parent.
CONTROLLER = """
import asyncio, json, os, sys, time
if not os.fork():
    from fullmesh.ask import lease, program, talk
    from fullmesh.ask.channel import ConnectionSpec
    way = ConnectionSpec(argv=["/bin/sh", "-c", 'exec /bin/sh -c "$1"', "ssh"], control=None,
              command=program.build_query_command([sys.executable]), root=False, found=False, address="", user="")
    asked = talk.NodeQuery(program.KNOWN["ladder_node"], json.loads(sys.argv[1]), 30, "")
    said = asyncio.run(lease.query_and_hold_nodes({"a": way}, {"a": asked}, 5, lambda *_: None))
    print(json.dumps(said["a"].answer), flush=True)
    os._exit(0)
time.sleep(99)
"""
LOOK = {
    "token": "t" * 32,
    "node": "a",
    "address": "127.0.0.1",
    "python": sys.executable,
    "samples": 1,
    "hosts": [],
    "interface": "",
    "named": [],
    "outside": False,
    "allowed": [],
    "survey": False,
    "beside": False,
    "range": [],
    "assumed": False,
    "spread": 0,
    "listen": True,
    "nccl": False,
    "lifetime": 120,
    "rails": [],
}


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def run() -> Iterator[str]:
    """The name of a run of the real folder, as the program of a question knows no other."""
    name = f"test-{os.getpid()}-{time.monotonic_ns()}"
    yield name
    detach.remove_run_directory(name)


@pytest.fixture
def command() -> Iterator[subprocess.Popen[bytes]]:
    """A process in the place of ``./fullmesh``."""
    process = subprocess.Popen(["sleep", "99"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def controller(run: str, command: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A controller that holds the lease of the run on a node."""
    process = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, json.dumps({**LOOK, "run": run})],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), PID_VARIABLE: str(command.pid)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout
    said = json.loads(process.stdout.readline())
    assert [port["kind"] for port in said["result"]["ports"]] == ["sample"]
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def processes_of(word: str) -> list[int]:
    """Processes with this word among their arguments."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def holders_of(folder: Path) -> list[int]:
    """Processes that have a file of this folder open: the lease, while it is held."""
    found = []
    for place in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(place.readlink()).startswith(str(folder)):
                found.append(int(place.parts[2]))
        except OSError:
            continue
    return found


def find_holder(folder: Path) -> int:
    """The only process that holds the lease. A child that has just been forked still has its parent's files open."""
    found: list[int] = []

    def is_alone() -> bool:
        found[:] = holders_of(folder)
        return len(found) == 1

    wait_for(is_alone)
    return found[0]


def test_listeners_end_with_a_killed_controller(
    run: str, controller: subprocess.Popen[bytes]
) -> None:
    folder = Path(detach.run_directory(run))
    assert not node_lease.is_lease_lost(str(folder))
    controller.kill()
    controller.wait()
    wait_for(lambda: not folder.exists())


def test_listeners_end_with_a_killed_command_line(
    run: str, command: subprocess.Popen[bytes], controller: subprocess.Popen[bytes]
) -> None:
    """``./fullmesh`` is killed, and ansible-playbook goes on."""
    folder = Path(detach.run_directory(run))
    assert not node_lease.is_lease_lost(str(folder))
    command.kill()
    command.wait()
    wait_for(lambda: not folder.exists())
    assert controller.poll() is None


def test_a_controller_that_leaves_early_leaves_no_file(run: str, tmp_path: Path) -> None:
    """Ctrl-C while nodes are still looked at."""
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nsleep 99\n")
    slow.chmod(0o755)
    made = program.build_query_program("fullmesh.probe.first_call")
    asked = NodeQuery(
        program.KNOWN["ladder_node"],
        {**LOOK, "run": run, "python": str(slow), "attached": True},
        30,
        "",
        3.5,
    )
    node = subprocess.Popen(
        ["/bin/sh", "-c", program.build_query_command([sys.executable])],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert node.stdin
    node.stdin.write(program.load_boot_program() + asked.line("M", made) + made.data)
    node.stdin.flush()
    folder = Path(detach.run_directory(run))
    wait_for(folder.exists)
    node.stdin.close()
    assert node.wait(timeout=10) == -signal.SIGKILL
    assert not folder.exists()


def test_a_run_that_is_over_ends_its_session(run: str, controller: subprocess.Popen[bytes]) -> None:
    folder = Path(detach.run_directory(run))
    holder = find_holder(folder)
    detach.remove_run_directory(run)
    wait_for(lambda: not Path(f"/proc/{holder}").exists())
    assert controller.poll() is None


def test_a_controller_that_is_not_heard_is_gone(
    run: str, controller: subprocess.Popen[bytes]
) -> None:
    """As when the connection is cut: the session is still there and nothing comes."""
    folder = Path(detach.run_directory(run))
    holder = find_holder(folder)
    session = parent_of(holder)
    os.kill(session, signal.SIGSTOP)
    try:
        wait_for(lambda: not folder.exists())
    finally:
        os.kill(session, signal.SIGKILL)
    assert controller.poll() is None


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture
def held(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the lease of ``run1``."""
    folder = detach.make_run_directory("run1", str(tmp_path))
    script = (
        "import fcntl, sys, time; lock = open(sys.argv[1], 'w'); fcntl.flock(lock, fcntl.LOCK_EX);"
        " print(flush=True); time.sleep(99)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, f"{folder}/{node_lease.LEASE}"], stdout=subprocess.PIPE
    )
    assert process.stdout
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture
def same_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter of these tests may be where only this account may go."""
    monkeypatch.setattr(ranks, "pick", lambda: None)


@pytest.mark.usefixtures("same_account")
def test_ranks_end_with_the_lease(tmp_path: Path, held: subprocess.Popen[bytes]) -> None:
    start_ranks(tmp_path, HANG, deadline=60)
    ours = str(tmp_path / "run1")
    wait_for(lambda: len(processes_of(f"{ours}/gloo_ladder.py")) == 2)
    held.kill()
    wait_for(lambda: not processes_of(f"{ours}/gloo_ladder.py"))
    wait_for(lambda: not (tmp_path / "run1").exists())


@pytest.mark.usefixtures("same_account")
def test_ranks_end_with_their_supervisor(tmp_path: Path) -> None:
    start_ranks(tmp_path, HANG, deadline=60)
    ours = str(tmp_path / "run1")
    wait_for(lambda: len(processes_of(f"{ours}/gloo_ladder.py")) == 2)
    rank = processes_of(f"{ours}/gloo_ladder.py")[0]
    os.kill(parent_of(rank), signal.SIGKILL)
    wait_for(lambda: not processes_of(f"{ours}/gloo_ladder.py"))
    assert ranks.collect_ranks("run1", str(tmp_path), 60.0)["done"] is False
