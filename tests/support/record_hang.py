"""Record the answers of ranks of hung jobs, for tests/unit/recorded/hang.

unshare --mount --net python tests/support/record_hang.py VENV_WITH_TORCH tests/unit/recorded/hang
[NAME ...]

The jobs of hang_jobs.py run with real Gloo, each rank in its own process, on the loopback of a
separate network namespace. Each runs as /home/user/train.py in a private mount namespace, so no
record depends on the recording machine. A thread in every rank (hang_inside.py) records the inside
view. This program reads the rest from /proc.

``NAME.json.gz`` has the ranks of each sample. ``NAME-RANK.json`` and ``NAME_RANK`` are torch's own
JSON and pickle.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE, Popen, run
from typing import Any

import hang_jobs
from record_files import write_record

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))
from fullmesh.hang import recorder  # noqa: E402 (the path is set only now)

HOME = Path("/home/user")
ANSWER = 2.0  # seconds in which a working rank answers
READY = 180.0  # seconds to import torch and connect on a busy machine
CALLS = {0: "read", 1: "write", 7: "poll", 202: "futex", 230: "clock_nanosleep", 232: "epoll_wait"}
ON_FILES = {0, 1}
# raw files are kept for these, because readers must parse them
RAW = ("healthy", "late_sleep", "sizes", "kinds", "groups_crossed")


def make_home(venv: Path) -> None:
    """Make a home for the job that only this process sees."""
    outside = Path(
        f"/proc/{os.getppid()}/ns"
    )  # unshare became this process, so the parent is outside
    if any(os.readlink(outside / k) == os.readlink(f"/proc/self/ns/{k}") for k in ("mnt", "net")):
        raise SystemExit("start it with unshare --mount --net")
    run(["mount", "--make-rprivate", "/"], check=True)
    run(["mount", "-t", "tmpfs", "none", "/home"], check=True)
    (HOME / "venv").mkdir(parents=True)
    run(["mount", "--bind", str(venv), str(HOME / "venv")], check=True)
    run(["ip", "link", "set", "lo", "up"], check=True)


def read_native_stack(pid: int) -> dict[str, Any]:
    """Return the main thread as the kernel shows it."""
    place = Path(f"/proc/{pid}/task/{pid}")
    words = (place / "syscall").read_text().split()
    number = int(words[0]) if words[0].lstrip("-").isdecimal() and len(words) > 2 else -1
    fd = int(words[1], 16) if number in ON_FILES else -1
    return {
        "state": (place / "stat").read_text().rpartition(")")[2].split()[0],
        "wchan": (place / "wchan").read_text(),
        "syscall": "" if number < 0 else CALLS.get(number, str(number)),
        "fd": fd,
        "target": os.readlink(place / f"fd/{fd}") if fd >= 0 else "",
        "forever": number == 202 and int(words[4], 16) == 0,
        "functions": [],
    }


class Job:
    """The processes of a job and their output. ``before`` lists folders at the front of PYTHONPATH."""

    def __init__(self, name: str, before: Sequence[Path] = ()) -> None:
        self.job, self.before = hang_jobs.JOBS[name], before
        work = HOME / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        (HOME / "train.py").write_text(self.job.script)
        for number, text in self.job.files.items():
            (HOME / number).write_text(text)
        shutil.copy(Path(__file__).with_name("hang_inside.py"), HOME / "sitecustomize.py")
        self.work, self.name = work, name
        self.ranks = [self.start(rank) for rank in range(self.job.world)]

    def start(self, rank: int) -> Popen[bytes]:
        """Start one rank."""
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, [*self.before, HOME])),
            "PYTHONWARNINGS": "ignore",
            "RANK": str(rank),
            "WORLD_SIZE": str(self.job.world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "TORCH_FR_BUFFER_SIZE": "2000",
        }
        errors = (self.work / f"errors{rank}").open("wb")
        command = [str(HOME / "venv/bin/python"), "train.py"]
        return Popen(command, cwd=HOME, env=env, stdin=PIPE, stdout=errors, stderr=errors)

    def wait(self) -> None:
        """Wait until every rank has reached its place in the script, or has ended."""
        self.wait_for("ready")
        time.sleep(self.job.settle)

    def wait_for(self, name: str) -> None:
        """Wait until every rank has written its mark."""
        deadline = time.monotonic() + READY
        for rank, process in enumerate(self.ranks):
            while not (self.work / f"{name}{rank}").exists() and process.poll() is None:
                if time.monotonic() > deadline:
                    raise SystemExit(f"{self.name}: rank {rank} does not get there ({name})")
                time.sleep(0.05)

    def sample(self, number: int) -> list[dict[str, Any]]:
        """Take a sample of every rank."""
        (self.work / f"ask{number}").touch()
        deadline = time.monotonic() + ANSWER
        return [self.rank(rank, number, deadline) for rank in range(self.job.world)]

    def inside(self, rank: int, number: int, deadline: float) -> dict[str, Any] | None:
        """Return the record of the thread in a rank, or the last one if the rank has ended."""
        path = self.work / f"said{rank}.{number}.json"
        while not path.exists() and self.ranks[rank].poll() is None:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)
        last = self.work / f"said{rank}.last.json"
        found = path if path.exists() else last
        return json.loads(found.read_text()) if found.exists() else None

    def rank(self, rank: int, number: int, deadline: float) -> dict[str, Any]:
        """Return a rank in the form of the schema."""
        process = self.ranks[rank]
        inside = self.inside(rank, number, deadline)
        gone = process.poll() is not None
        missing = []
        kept: dict[str, Any] = {"threads": [], "groups": [], "raised": None}
        if inside:
            raw = bytes.fromhex(inside.pop("pickle"))
            entries, _ = recorder.parse_record(recorder.parse_record_data(raw))
            kept = inside
        else:
            entries = []
            why = "its process does not answer"
            missing = [{"what": "recorder", "why": why}, {"what": "stacks", "why": why}]
        return {
            "rank": rank,
            "world": self.job.world,
            "host": f"n{rank * 2 // self.job.world + 1}",
            "pid": 4100 + rank,
            "taken_ns": time.time_ns(),
            "process": "gone" if gone else "running",
            "exit_code": process.returncode if gone else None,
            "groups": kept["groups"],
            "entries": entries[-40:],
            "threads": [] if gone else kept["threads"],
            "native": {**recorder.NO_NATIVE} if gone else read_native_stack(process.pid),
            "raised": kept["raised"],
            "missing": missing,
        }

    def end(self) -> None:
        """Kill the remaining processes."""
        for process in self.ranks:
            process.send_signal(signal.SIGKILL) if process.poll() is None else None
            process.wait()


def record_job(name: str, folder: Path) -> None:
    """Run one job and write its files."""
    job = Job(name)
    try:
        job.wait()
        if job.job.breaks:
            job.job.breaks([process.pid for process in job.ranks])
            time.sleep(job.job.settle)
        samples = []
        for number in range(job.job.samples):
            samples.append(job.sample(number))
            time.sleep(job.job.pause)
        if name in RAW:
            (job.work / "raw").touch()
            job.wait_for("raw")
    finally:
        job.end()
        if job.job.undo:
            job.job.undo()
    for rank in range(job.job.world):
        if (
            errors := (job.work / f"errors{rank}")
            .read_text()
            .replace("retrieved. err=-3", "")[-1500:]
        ):
            print(name, rank, errors)  # noqa: T201 (for the person who renews the records)
    text = json.dumps({"samples": samples}, separators=(",", ":")).replace(sys.base_prefix, "/usr")
    write_record(folder / f"{name}.json", text)
    if name in RAW:
        for rank in range(job.job.world):
            for kind, end in (("json", f"-{rank}.json"), ("pickle", f"_{rank}")):
                shutil.copy(job.work / f"raw{rank}.{kind}", folder / (name + end))


def main(venv: str, folder: str, names: list[str]) -> None:
    """Record the named jobs, or all."""
    make_home(Path(venv).resolve())
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for name in names or hang_jobs.JOBS:
        record_job(name, place)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
