"""Ranks for tests: real Python processes with the real hook, and a fake of torch with a record that torch wrote."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import fullmesh_watch_look as watch_look
import pytest

ROOT = Path(__file__).resolve().parents[2]
HOOK = ROOT / "node_programs/fullmesh_hook.py"
RECORDED = Path(__file__).parent / "recorded/hang"
# this run's own: another one on this machine has jobs of the same form
MASTER = f"127.0.0.1:{os.getpid() % 50000 + 10000}"
# The modules that the hook finds in sys.modules of a job with torch. A real torch wrote the record.
TORCH = """
import sys, types
class Group:
    group_desc = "default_pg"
    def rank(self): return {rank}
    def size(self): return 2
world = types.SimpleNamespace(default_pg=Group())
world.pg_names = {{world.default_pg: "0"}}
world.pg_group_ranks = {{world.default_pg: {{0: 0, 1: 1}}}}
sys.modules["torch.distributed.distributed_c10d"] = types.SimpleNamespace(_world=world)
record = open({record!r}, "rb").read()
sys.modules["torch._C._distributed_c10d"] = types.SimpleNamespace(_dump_fr_trace_json=lambda *_: record)
"""
READY = "print('ready', flush=True)\n"
WAIT = READY + "import sys; sys.stdin.read()\n"
Start = Callable[..., "subprocess.Popen[str]"]


def job_variables() -> dict[str, str]:
    """Return the environment of every rank of the job."""
    address, _, port = MASTER.partition(":")
    return {"WORLD_SIZE": "2", "MASTER_ADDR": address, "MASTER_PORT": port}


def recorded_rank(rank: int, name: str = "late_sleep") -> str:
    """The beginning of a rank's program, which has a record that torch has written."""
    return TORCH.format(rank=rank, record=str(RECORDED / f"{name}-{rank}.json"))


def hide_other_sessions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list. After a test adds its sessions, it sees no process of other tests on this machine."""
    sessions: list[int] = []
    map_parents = watch_look.map_parents

    def map_own_parents() -> dict[int, int]:
        found = {}
        for pid, parent in map_parents().items():
            with contextlib.suppress(ProcessLookupError):
                if not sessions or os.getsid(pid) in sessions:
                    found[pid] = parent
        return found

    monkeypatch.setattr(watch_look, "map_parents", map_own_parents)
    return sessions


@contextlib.contextmanager
def ranks_in(folder: Path) -> Iterator[Start]:
    """Start ranks whose programs are in a folder, and end them."""
    (folder / "hook").mkdir()
    shutil.copy(HOOK, folder / "hook/sitecustomize.py")
    running: list[subprocess.Popen[str]] = []

    def begin(script: str, rank: int = 0, **env: str) -> subprocess.Popen[str]:
        path = folder / f"train{rank}.py"
        path.write_text(script)
        told = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder / "hook"), "RANK": str(rank)}
        told |= {**job_variables(), **env}
        one = subprocess.Popen(
            [sys.executable, str(path)],
            env={key: value for key, value in told.items() if value},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running.append(one)
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
        return one

    try:
        yield begin
    finally:
        for one in running:
            # its children as well: they hold the pipes
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.communicate()
