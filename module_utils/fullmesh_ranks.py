"""Start the ranks of a test job on this node, detached, and end them at the deadline.

Gloo waits five times its timeout and a TCPStore client may wait for ever, so no rank is trusted to
end by itself: a supervisor without ties to the controller does it.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from ansible.module_utils.fullmesh_detach import detach, drop_run_directory, run_directory

if TYPE_CHECKING:
    from typing import Any

    Spec = dict[str, Any]

GRACE = 3.0  # between the first rank that died and the end of the others on this node
KEEP = 180.0  # how long results wait for the controller
TAIL = 1500


def place(run: str, base: str, name: str) -> str:
    """Name a file of this run."""
    return os.path.join(run_directory(run, base), name)


def write_json(path: str, value: "Any") -> None:
    """Write a file that readers see whole or not at all."""
    with open(path + ".new", "w") as stream:
        json.dump(value, stream)
    os.replace(path + ".new", path)


def rank_environment(spec: "Spec", rank: int, local_rank: int) -> "dict[str, str]":
    """Build the environment of one rank; nothing of torch's is inherited from this shell."""
    prefixes = ("GLOO_", "NCCL_", "MASTER_", "TORCH_", "TORCHELASTIC_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}
    env.update({str(k): str(v) for k, v in spec["environment"].items()})
    env.update({"RANK": str(rank), "LOCAL_RANK": str(local_rank)})
    return env


def spawn(spec: "Spec", rank: int, local_rank: int) -> "subprocess.Popen[bytes]":
    """Start one rank, its output in a file."""
    run, base = spec["run"], spec["base"]
    with open(place(run, base, f"rank-{rank}.log"), "wb") as log:
        return subprocess.Popen(
            [
                spec["python"],
                place(run, base, "gloo_ladder.py"),
                place(run, base, "settings.json"),
                place(run, base, f"rank-{rank}.jsonl"),
            ],
            env=rank_environment(spec, rank, local_rank),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def kill(process: "subprocess.Popen[bytes]") -> None:
    """End a rank for good."""
    with contextlib.suppress(OSError):
        process.send_signal(signal.SIGKILL)
    process.wait()


def supervise(spec: "Spec") -> "dict[str, Any]":
    """Run the ranks to their end or to the deadline."""
    begun = time.monotonic()
    ends = begun + float(spec["deadline"])
    ranks = list(spec["ranks"])
    running = {rank: spawn(spec, rank, index) for index, rank in enumerate(ranks)}
    codes: "dict[str, int]" = {}
    killed: "list[int]" = []
    while running:
        time.sleep(0.05)
        for rank in [r for r, process in running.items() if process.poll() is not None]:
            code = int(running.pop(rank).returncode)
            codes[str(rank)] = code
            if code:
                ends = min(ends, time.monotonic() + GRACE)
        if time.monotonic() > ends:
            for rank, process in running.items():
                kill(process)
                killed.append(rank)
            running = {}
    # Whether a deadline ended because the processors were busy elsewhere is only to be seen while they are.
    return {
        "codes": codes,
        "killed": killed,
        "seconds": round(time.monotonic() - begun, 3),
        "load": os.getloadavg()[0],
        "cpus": os.cpu_count() or 1,
    }


def start_ranks(spec: "Spec") -> None:
    """Write what the ranks need and leave a supervisor behind."""
    run, base = spec["run"], spec["base"]
    for name, text in dict(spec.get("modules", {}), **{"gloo_ladder.py": spec["script"]}).items():
        with open(place(run, base, os.path.basename(name)), "w") as stream:
            stream.write(text)
    write_json(place(run, base, "settings.json"), spec["settings"])
    write_json(place(run, base, "ranks.json"), {"ranks": spec["ranks"]})

    def work() -> None:
        try:
            ended = supervise(spec)
        except OSError as exc:
            ended = {"codes": {}, "killed": [], "seconds": 0.0, "error": str(exc)}
        write_json(place(run, base, "ended.json"), ended)
        forget_at = time.monotonic() + KEEP
        while os.path.isdir(run_directory(run, base)) and time.monotonic() < forget_at:
            time.sleep(1.0)
        drop_run_directory(run, base)

    detach(work)


def read_json(path: str) -> "Any":
    """Return what a file holds, None while it is not there."""
    try:
        with open(path) as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def read_events(path: str) -> "list[dict[str, Any]]":
    """Return the complete lines that a rank has written so far."""
    try:
        with open(path) as stream:
            text = stream.read()
    except OSError:
        return []
    return [json.loads(line) for line in text.split("\n")[:-1] if line]


def read_tail(path: str) -> str:
    """Return the last words of a rank."""
    try:
        with open(path, "rb") as stream:
            return stream.read()[-TAIL:].decode("utf-8", "replace").strip()
    except OSError:
        return ""


def collect_ranks(run: str, base: str, wait: float) -> "dict[str, Any]":
    """Return what every rank has said; done is false while some are still at it."""
    ended_path = place(run, base, "ended.json")
    until = time.monotonic() + wait
    while not os.path.exists(ended_path) and time.monotonic() < until:
        time.sleep(0.1)
    ended = read_json(ended_path)
    started = read_json(place(run, base, "ranks.json"))
    ranks = started["ranks"] if started else []
    return {
        "done": ended is not None or not started,
        "started": bool(started),
        "ended": ended or {},
        "ranks": {
            str(rank): {
                "events": read_events(place(run, base, f"rank-{rank}.jsonl")),
                "log": read_tail(place(run, base, f"rank-{rank}.log")),
            }
            for rank in ranks
        },
    }


def current_step(rank: "dict[str, Any]") -> str:
    """Say what a rank is doing, for the line that is shown while we wait."""
    events = rank["events"]
    return str(events[-1]["step"]) if events else "start"
