"""What `./fullmesh hang --samples 4` gets from jobs that go on, slow ones and healthy ones, for recorded/hang_slow.

    unshare --mount --net python tests/support/record_slow.py VENV_WITH_TORCH tests/unit/recorded/hang_slow [NAME ...]

Real Gloo jobs with the real hook, queried by the node's own program, in the place that record_hang.py makes. Every two
ranks of four have a node of their own, and each rank of two.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import record_hang
from record_files import write_record
from slow_jobs import FILES, JOBS, GoingJob

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "node_programs"))
import fullmesh_hang_look as hang_look  # noqa: E402 (its place is known only now)

LOOKS, PAUSE, RUNS = 4, 3.0, 8.0
CPU = Path("/run/fullmesh-hang/cpu")
HOGS, BEHIND = 3, 10
READ_SECONDS = 0.04


@contextmanager
def limit_cpu(pid: int) -> Iterator[None]:
    """A control group (version 1) that gives a process a fifth of a CPU."""
    CPU.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "cgroup", "-o", "cpu", "none", str(CPU)], check=True)
    group = CPU / "fullmesh-slow"
    group.mkdir(exist_ok=True)
    (group / "cpu.cfs_quota_us").write_text("20000")
    (group / "cgroup.procs").write_text(str(pid))
    try:
        yield
    finally:
        (CPU / "cgroup.procs").write_text(str(pid))
        group.rmdir()
        subprocess.run(["umount", str(CPU)], check=True)


@contextmanager
def occupy_cpu(pid: int) -> Iterator[None]:
    """Other processes that never rest and come before this one."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.setpriority(os.PRIO_PROCESS, int(thread), BEHIND)
    command = [sys.executable, "-c", "while True: pass"]
    hogs = [subprocess.Popen(command) for _ in range(HOGS)]
    try:
        yield
    finally:
        for one in hogs:
            one.kill()
            one.wait()


@contextmanager
def mount_slow_storage() -> Iterator[None]:
    """A file system of which each read takes a while."""
    Path(FILES).mkdir(exist_ok=True)
    server = Path(__file__).with_name("stalled_files.py")
    process = subprocess.Popen([sys.executable, str(server), FILES, str(READ_SECONDS)])
    try:
        while not (Path(FILES) / "batch").exists():
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()
        subprocess.run(["umount", FILES], check=True)


def start_job(job: GoingJob, work: Path) -> list[subprocess.Popen[bytes]]:
    """Start the ranks with the hook."""
    hook = work / "hook"
    hook.mkdir()
    shutil.copy(ROOT / "node_programs/fullmesh_hook.py", hook / "sitecustomize.py")
    mark = "import os; ready = lambda: open('/home/user/work/ready' + os.environ['RANK'], 'w').close()\n"
    (record_hang.HOME / "train.py").write_text(mark + job.script)
    for name, text in job.files.items():
        (record_hang.HOME / name).write_text(text)
    ranks = []
    for rank in range(job.world):
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{hook}:{record_hang.HOME}",
            "PYTHONWARNINGS": "ignore",
            "RANK": str(rank),
            "WORLD_SIZE": str(job.world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        errors = (work / f"errors{rank}").open("wb")
        command = [str(record_hang.HOME / "venv/bin/python"), "train.py"]
        ranks.append(
            subprocess.Popen(command, cwd=record_hang.HOME, env=env, stdout=errors, stderr=errors)
        )
    return ranks


def record_job(name: str, folder: Path) -> None:
    """Run one job and write its file."""
    job = JOBS[name]
    with mount_slow_storage() if job.storage else nullcontext():
        samples = sample_job(name, job)
    text = json.dumps({"samples": samples}, separators=(",", ":")).replace(sys.base_prefix, "/usr")
    write_record(folder / f"{name}.json", text)


def sample_job(name: str, job: GoingJob) -> list[list[object]]:
    """Run a job, and look at it some times."""
    work = record_hang.HOME / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    ranks = start_job(job, work)
    pids = [one.pid for one in ranks]
    try:
        deadline = time.monotonic() + record_hang.READY
        while not all((work / f"ready{rank}").exists() for rank in range(job.world)):
            if time.monotonic() > deadline or any(one.poll() is not None for one in ranks):
                raise SystemExit(f"{name}: {(work / 'errors0').read_text()[-2000:]}")
            time.sleep(0.1)
        with ExitStack() as stack:
            if job.quota:
                stack.enter_context(limit_cpu(pids[1]))
            if job.hogs:
                stack.enter_context(occupy_cpu(pids[1]))
            time.sleep(RUNS)
            samples = []
            for number in range(LOOKS):
                time.sleep(PAUSE if number else 0)
                samples.append(query_job(job, pids))
        return samples
    finally:
        for one in ranks:
            one.send_signal(signal.SIGKILL)
            one.wait()


def query_job(job: GoingJob, pids: list[int]) -> list[object]:
    """Return the answer of the program on the node, with the names and numbers of another machine."""
    found: list[object] = []
    ranks = hang_look.read_ranks(hang_look.FoundRanks("", pids), "n1", hang_look.NodeEvidence())
    for one in ranks:
        node = one["rank"] * 2 // job.world + 1
        found.append({**one, "host": f"n{node}", "pid": 4100 + one["rank"], "kernel": []})
    return found


def main(venv: str, folder: str, names: list[str]) -> None:
    """Record the jobs that are named, or all."""
    record_hang.make_home(Path(venv).resolve())
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for name in names or JOBS:
        record_job(name, place)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
