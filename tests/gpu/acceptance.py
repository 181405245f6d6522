"""GPU acceptance in one command: ``python3 tests/gpu/acceptance.py --out DIR``, as root.

It needs torch and the standard library, no network and no installation, and ends within 8 minutes. Each step is a
process with a deadline of its own, and a step that fails does not stop the others. DIR gets at most 8 records: the
verdicts (acceptance.json) and logs, without names, serial numbers and addresses of the machine.

``--device cpu`` tries it with stand-ins: Gloo for NCCL, tensors of the CPU, a recorded nvidia-smi, a FAKE of RAS.
``--device auto`` (``./fullmesh test gpu``) takes the GPU if there is one, else the stand-ins, and does nothing without
torch.

Exit status 0: all steps passed, 1: a step failed or was not run, 2: this machine cannot run it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path[:] = [one for one in sys.path if Path(one or ".").resolve() != Path(__file__).parent]
from gpu import paths, records, steps  # noqa: E402 (their folder is known only now)

TOTAL_SECONDS = 465.0  # of 8 minutes: what is left is for the records
LEAST_SECONDS = 10.0  # with less a step cannot do anything
SLOWER = 4  # times as long with simulations, on a busy machine
CANNOT_RUN = 2
RESULT = "result.json"


def find_python() -> str:
    """Find a Python with torch: the one that runs this, or the first on PATH; "" if there is none."""
    names = ["python3", *(f"{folder}/python3" for folder in os.environ["PATH"].split(os.pathsep))]
    for name in dict.fromkeys([sys.executable, *filter(None, map(shutil.which, names))]):
        words = [
            name,
            "-c",
            "import importlib.util as u; raise SystemExit(not u.find_spec('torch'))",
        ]
        if subprocess.run(words, check=False, capture_output=True).returncode == 0:
            return name
    return ""


def choose_device() -> str:
    """Choose ``cuda`` if torch sees a GPU, else ``cpu``, and print that."""
    torch: Any = importlib.import_module("torch")
    if torch.cuda.is_available():
        return "cuda"
    print_line("torch sees no GPU on this machine, so this tries the steps with stand-ins")
    return "cpu"


def print_line(text: str) -> None:
    """Print a line."""
    print(f"GPU acceptance: {text}", flush=True)  # noqa: T201 (a command line)


def find_obstacle(device: str) -> str:
    """Return why this machine cannot run it, "" if it can."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as exc:
        return f"torch cannot be imported: {exc}"
    if os.geteuid():
        return "network namespaces need root. Fix: run it with sudo"
    if device != "cpu" and not torch.cuda.is_available():
        return "torch sees no GPU. Fix: run it on a machine with one, or try it with --device cpu"
    return ""


def list_versions(device: str, stand_ins: Sequence[str]) -> dict[str, Any]:
    """Return the versions that the verdicts are about."""
    torch: Any = importlib.import_module("torch")
    fullmesh: Any = importlib.import_module("fullmesh")
    has_gpu = device != "cpu"
    return {
        "fullmesh": fullmesh.__version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if has_gpu else None,
        "gpus": [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())],
        "stand_ins": [*stand_ins, *([] if has_gpu else ["gloo", "cpu", "nvidia-smi", "ras"])],
    }


def run_step(name: str, work: Path, scratch: Path, device: str) -> int:
    """Take one step in this process, and write its verdict."""
    run = steps.StepRun(name, work, scratch, device)
    try:
        steps.STEPS[name].work(run)
    except Exception as exc:
        traceback.print_exc()
        run.check(False, f"{type(exc).__name__}: {exc}")
    verdict = records.FAILED if run.wrong else records.PASSED
    found = {"verdict": verdict, "wrong": run.wrong, "numbers": run.numbers}
    (scratch / RESULT).write_text(json.dumps(found, default=str))
    return 0


def start_step(name: str, work: Path, device: str, seconds: float) -> dict[str, Any]:
    """Take one step in its own process group, and kill the group when its time is up."""
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="fullmesh-gpu-") as scratch,
        (work / "steps.log").open("ab") as log,
    ):
        words = ["--device", device, "--step", name, "--out", str(work), "--scratch", scratch]
        log.write(f"=== {name}\n".encode())
        log.flush()
        one = subprocess.Popen(
            [sys.executable, __file__, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            why = f"its process ended with exit status {one.wait(seconds)} and without a result"
        except subprocess.TimeoutExpired:
            why = f"it did not end within {seconds:.0f} s"
        finally:  # also after Ctrl-C
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()
        path = Path(scratch) / RESULT
        failed = {"verdict": records.FAILED, "wrong": [why], "numbers": {}}
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else failed
        if not path.exists():
            keep_logs(Path(scratch), work, name)
    return {"step": name, "seconds": round(time.monotonic() - begun, 1), **found}


def keep_logs(scratch: Path, work: Path, name: str) -> None:
    """Save the logs of the ranks of a step that left no result."""
    with (work / "errors.log").open("a") as stream:
        for path in sorted(scratch.rglob("rank-*.log")):
            stream.write(
                f"=== {name}, {path.name}\n{path.read_text(errors='replace')[-100_000:]}\n"
            )


def run_all(names: Sequence[str], out: Path, device: str, head: dict[str, Any]) -> int:
    """Take the steps one after the other, and write the records into *out* after each."""
    begun = time.monotonic()
    taken: list[dict[str, Any]] = []
    slower = SLOWER if device == "cpu" else 1
    known = records.list_machine_names()
    with tempfile.TemporaryDirectory(prefix="fullmesh-gpu-records-") as folder:
        work = Path(folder)
        for name in names:
            left = TOTAL_SECONDS * slower - (time.monotonic() - begun)
            seconds = min(left, steps.STEPS[name].seconds * slower)
            if seconds < LEAST_SECONDS:
                why = ["there was no time left"]
                one: dict[str, Any] = {"step": name, "seconds": 0, "wrong": why}
                one["verdict"] = records.NOT_RUN
            else:
                one = start_step(name, work, device, seconds)
            taken.append(one)
            if way := one.get("numbers", {}).get("way"):
                os.environ["ACCEPTANCE_WAY"] = way
            reasons = "; ".join(one["wrong"])
            print_line(f"{one['verdict']}: {name} ({one['seconds']} s) {reasons}")
            spent = round(time.monotonic() - begun, 1)
            text = json.dumps({"schema": 1, **head, "seconds": spent, "steps": taken}, indent=1)
            (work / "acceptance.json").write_text(text + "\n")
            records.write_records(work, out, known)
    return records.get_exit_status(one["verdict"] for one in taken)


def main(argv: Sequence[str]) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the records")
    parser.add_argument("--device", choices=("cuda", "cpu", "auto"), default="cuda")
    parser.add_argument("--only", nargs="+", choices=list(steps.STEPS), default=list(steps.STEPS))
    parser.add_argument("--step", choices=list(steps.STEPS), help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    stand_ins = paths.find_parts()
    if args.step:
        return run_step(args.step, args.out, args.scratch, args.device)
    if args.device == "auto":
        python = find_python()
        if not python:
            print_line("not run, since no Python on PATH has torch")
            return 0
        if python != sys.executable:
            os.execv(python, [python, __file__, *argv])  # noqa: S606 (the same command)
        args.device = choose_device()
    if why := find_obstacle(args.device):
        print_line(why)
        return CANNOT_RUN
    args.out.mkdir(parents=True, exist_ok=True)
    return run_all(args.only, args.out, args.device, list_versions(args.device, stand_ins))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
