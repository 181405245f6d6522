"""Let jobs of two and four ranks hang on this machine, and ask each adapter about every one.

    unshare --mount --net .venv/bin/python benchmarks/faults/hang.py VENV_WITH_TORCH OUT NAME...

The jobs are those of ``tests/support/hang_jobs.py``: real Gloo jobs on the loopback of their own network namespace. The
truth is in ``tests/causes/hang``. ``run.py --torch`` starts this with the paths that it needs.

An adapter gets a folder and ``RANK=PID`` for each rank. The folder has an inventory, and ``dump_RANK`` for each rank
that can still write one: the Flight Recorder, as torch's watchdog writes it for NCCL. The answer's node is a rank, or
several, separated by commas.
"""

from __future__ import annotations

import json
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import record_hang
import yaml
from causes.cases import JOBS
from run import Recorder, ask_adapters, read_trials
from score import Trial, Truth

from fullmesh.settings import ROOT

Answer = dict[str, str]
Pids = Mapping[int, int]
SECONDS = 80
ANSWER = 10.0  # seconds in which a rank that can still write its dump does
PAUSE = 3.0  # between two stacks of a rank: one that moves does not hang
HEALTHY = "HG-162"
COLLECTIVE = "torch/distributed/distributed_c10d.py"
ANALYZER = "nvidia_resiliency_ext.attribution.trace_analyzer.fr_attribution"
LIBRARIES = ("/site-packages/", "/lib/python")


def run_command(*words: str) -> tuple[int, str]:
    """Run a command. Return its exit code and its output."""
    done = subprocess.run(
        words,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return done.returncode, done.stdout


def blame_ranks(ranks: Iterable[int], cause: str) -> Answer:
    """Report ranks. None is no report."""
    names = ", ".join(map(str, sorted(set(ranks))))
    return {"node": names, "cause": cause} if names else {}


def ask_fullmesh(folder: Path, _venv: Path, _pids: Pids) -> Answer:
    """``./fullmesh hang``."""
    _, output = run_command("./fullmesh", "hang", "-i", str(folder), "--json")
    findings = json.loads(output[output.index("{") :])["findings"]
    causes = [one for one in findings if one["severity"] == "cause"]
    said = " ".join(f"{one['code']} {one['place']} {one['cause']}" for one in causes)
    return blame_ranks([rank for one in causes for rank in one["ranks"]], said)


def ask_py_spy(_folder: Path, venv: Path, pids: Pids) -> Answer:
    """Run ``py-spy dump`` twice: report ranks that are at a place in the code where the others are not."""
    looks: list[dict[int, list[dict[str, Any]]]] = []
    for pause in (0.0, PAUSE):
        time.sleep(pause)
        looks.append({})
        for rank, pid in pids.items():
            code, output = run_command(
                str(venv / "bin/py-spy"), "dump", "--json", "--pid", str(pid)
            )
            if code:
                return blame_ranks([rank], f"py-spy: {output.strip()[-160:]}")
            threads = json.loads(output)
            main = [one for one in threads if one["thread_name"] == "MainThread"] or threads
            looks[-1][rank] = main[0]["frames"]
    moves = [rank for rank in pids if looks[0][rank] != looks[1][rank]]
    waits = [rank for rank in pids if any(COLLECTIVE in one["filename"] for one in looks[1][rank])]
    places = {rank: find_own_line(looks[1][rank]) for rank in pids}
    if moves:
        return {}
    late = [rank for rank in pids if rank not in waits]
    if not late:  # all wait: the lines of those in the minority
        lines = list(places.values())
        late = [rank for rank in pids if 2 * lines.count(places[rank]) <= len(lines)]
    return blame_ranks(late, " ".join(sorted({places[rank] for rank in late})))


def find_own_line(frames: Sequence[Mapping[str, Any]]) -> str:
    """Return the innermost line that belongs to no library."""
    own = [one for one in frames if not any(word in one["filename"] for word in LIBRARIES)]
    return f"{own[0]['filename']}:{own[0]['line']}" if own else ""


def ask_torchfrtrace(folder: Path, venv: Path, _pids: Pids) -> Answer:
    """Run ``torchfrtrace``: report the ranks that it calls missing, or the culprit of a mismatch."""
    code, output = run_command(str(venv / "bin/torchfrtrace"), str(folder), "--prefix", "dump_")
    found = re.findall(r"(?:missing ranks: \{|Culprit rank )([\d, ]+)", output)
    if code and not found:
        raise ValueError(output.strip()[-200:])
    ranks = [int(rank) for part in found for rank in re.findall(r"\d+", part)]
    return blame_ranks(ranks, " ".join(output.split())[-300:])


def ask_nvrx(folder: Path, venv: Path, _pids: Pids) -> Answer:
    """Return the missing ranks in the table of nvidia-resiliency-ext's Flight Recorder analysis."""
    words = ["-m", ANALYZER, "--fr-path", str(folder), "-p", "dump_*", "--emit-stdout"]
    code, output = run_command(str(venv / "bin/python"), *words)
    if code:
        raise ValueError(output.strip()[-200:])
    rows = [line.split("|") for line in output.splitlines() if "|" in line]
    ranks = [int(one) for row in rows[1:] for one in re.findall(r"\d+", row[-1])]
    return blame_ranks(ranks, "missing: " + " ".join(output.split())[-300:])


ADAPTERS: dict[str, Callable[[Path, Path, Pids], Answer]] = {
    "fullmesh hang": ask_fullmesh,
    "py-spy dump": ask_py_spy,
    "torchfrtrace": ask_torchfrtrace,
    "nvidia-resiliency-ext": ask_nvrx,
}
# py-spy stops the ranks while it reads them, so it is asked alone.
TOGETHER = ("fullmesh hang", "torchfrtrace", "nvidia-resiliency-ext")


def write_dumps(job: record_hang.Job, folder: Path) -> None:
    """Write the dumps that torch's watchdog writes for NCCL. For Gloo, torch leaves out the names of the groups."""
    (job.work / "ask0").touch()
    deadline = time.monotonic() + ANSWER
    for rank, process in enumerate(job.ranks):
        inside = job.inside(rank, 0, deadline)
        if inside is None or process.poll() is not None:
            continue
        record = pickle.loads(bytes.fromhex(inside["pickle"]))  # noqa: S301 (of a job that we started)
        record["pg_config"] = {
            one["name"]: {
                "name": one["name"],
                "desc": one["desc"],
                "ranks": json.dumps(one["ranks"]),
            }
            for one in inside["groups"]
        }
        (folder / f"dump_{rank}").write_bytes(pickle.dumps(record))


def describe_truth(name: str) -> Truth:
    """Return the ranks, the code and the line that the tests of the rules expect."""
    if JOBS[name][0][0] == HEALTHY:
        return Truth()
    blamed = sorted({rank for _, ranks, _ in JOBS[name] for rank in ranks})
    words = [word for code, _, place in JOBS[name] for word in (code, place) if word]
    return Truth(", ".join(map(str, blamed)), words=tuple(words))


def run_job(name: str, venv: Path, hook: Path, folder: Path) -> list[Trial]:
    """Let a job hang, and ask all adapters."""
    job, truth = record_hang.Job(name, (hook,)), describe_truth(name)
    try:
        job.wait()
        if job.job.breaks:
            job.job.breaks([process.pid for process in job.ranks])
            time.sleep(job.job.settle)
        time.sleep(PAUSE)
        write_dumps(job, folder)
        words = [f"{rank}={process.pid}" for rank, process in enumerate(job.ranks)]
        kind = "hang" if truth.node else "healthy"
        commands = {one: [sys.executable, __file__, one, str(venv)] for one in ADAPTERS}
        found = ask_adapters(commands, folder, words, TOGETHER)
        if all(process.poll() is not None for process in job.ranks):
            raise SystemExit("all of its ranks have ended, so nothing hangs")
        return [Trial(name, kind, one, truth, **found[one]) for one in ADAPTERS]  # type: ignore[arg-type]  # checked by parse_answer
    finally:
        job.end()
        if job.job.undo:
            job.job.undo()


def run_jobs(venv: Path, out: Path, names: Sequence[str]) -> None:
    """Ask about each job that has no answers yet."""
    record_hang.make_home(venv)
    known = {(one.case, one.adapter) for one in read_trials(out) if not one.failed}
    recorder = Recorder(out)
    host = {"ansible_connection": "local", "fullmesh_address": "127.0.0.1/8"}
    inventory = {"all": {"children": {"torch_nodes": {"hosts": {"n1": host}}}}}
    for name in names:
        if all((name, one) in known for one in ADAPTERS):
            continue
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            folder, hook = Path(place) / "job", Path(place) / "hook"
            folder.mkdir()
            hook.mkdir()
            (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
            shutil.copy(ROOT / "node_programs/fullmesh_hook.py", hook / "sitecustomize.py")
            try:
                rows = run_job(name, record_hang.HOME / "venv", hook, folder)
            except SystemExit as late:
                print(f"{name}: not made: {late}", flush=True)
                continue
        recorder.add(rows, time.monotonic() - begun)


def main(*words: str) -> None:
    """Run the jobs that are named, or print the answer of one adapter."""
    if words[0] in ADAPTERS:
        name, venv, folder, *pids = words
        found = {int(rank): int(pid) for rank, pid in (one.split("=") for one in pids)}
        print(json.dumps(ADAPTERS[name](Path(folder), Path(venv), found)))
    else:
        venv, out, *names = words
        run_jobs(Path(venv).resolve(), Path(out).resolve(), names)


if __name__ == "__main__":
    main(*sys.argv[1:])
