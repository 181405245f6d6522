"""Measure how much `hang` costs a job, and how long it takes to name a rank.

    python benchmarks/hang.py steps TORCH_PYTHON [--rounds 9] [--steps 400]
    python benchmarks/hang.py collectives TORCH_PYTHON [--rounds 15] [--count 20000]
    python benchmarks/hang.py ask [--ranks 64] [--rounds 5]

``steps``: a DDP job of two ranks on the loopback, in four kinds: without anything, with the Flight Recorder, with
recorder and hook, and with both and a query every 5 s (the least time between two queries of the watch). The kinds are
interleaved, so that a noisy machine affects all in the same way. The output has the medians of the ranks' own step
times, and their CPU time per step, which a busy machine disturbs less. TORCH_PYTHON is a Python with torch.

``collectives``: the CPU time of one collective in a world of one, in which an all_reduce does only the common work of
all collectives. Step times differ by more than this between two runs of the same job, but this median is stable to a
part of a microsecond. Multiplied by the collectives of a step, it is the cost of the recorder. The output also has the
cost of a query: the dump of a full buffer.

``ask``: many processes with the hook. One of them sleeps while all others are in an all_reduce. Their torch is a
    stand-in
with a record that a real one wrote, because so many real ones need more memory than this machine has. The output has
the time from the query to the named cause, with two queries 3 s apart, and the bytes for each rank and query.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "node_programs")]
HOOK = ROOT / "node_programs/fullmesh_hook.py"
RECORDED = ROOT / "tests/unit/recorded/hang"
ASKED_EVERY = 5.0
PAUSE = 3.0
KINDS = ("bare", "recorder", "recorder, hook", "recorder, hook, asked")
STEPS = """
import json, os, statistics, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)]))
descent = torch.optim.SGD(model.parameters(), lr=1e-3)
data, times, used = torch.ones(64, 256), [], 0.0
for step in range(int(sys.argv[1]) + 20):
    begun = time.perf_counter()
    if step == 20:
        used = time.process_time()
    descent.zero_grad(); model(data).sum().backward(); descent.step()
    times.append(time.perf_counter() - begun)
print(json.dumps([statistics.median(times[20:]), (time.process_time() - used) / int(sys.argv[1])]), flush=True)
dist.barrier()
os._exit(0)
"""
COLLECTIVES = """
import json, os, sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
one, count = torch.zeros(1), int(sys.argv[1])
for _ in range(count // 10):
    dist.all_reduce(one)
begun = time.process_time()
for _ in range(count):
    dist.all_reduce(one)
each = (time.process_time() - begun) / count
begun = time.process_time()
dumped = torch._C._distributed_c10d._dump_fr_trace_json(True, False)
dump = time.process_time() - begun
print(json.dumps([each, dump, len(json.loads(dumped).get("entries") or [])]), flush=True)
os._exit(0)
"""
# The DDP step above has two buckets of gradients.
OF_A_STEP = 2
RANK = """
import sys, time, types
class Group:
    group_desc = "default_pg"
    def rank(self): return {rank}
    def size(self): return {world}
world = types.SimpleNamespace(default_pg=Group())
world.pg_names = {{world.default_pg: "0"}}
world.pg_group_ranks = {{world.default_pg: {{one: one for one in range({world})}}}}
sys.modules["torch.distributed.distributed_c10d"] = types.SimpleNamespace(_world=world)
record = open({record!r}, "rb").read()
sys.modules["torch._C._distributed_c10d"] = types.SimpleNamespace(_dump_fr_trace_json=lambda *_: record)
print("ready", flush=True)
time.sleep(100000) if {late} else sys.stdin.read()
"""


@contextmanager
def hooked() -> Iterator[Path]:
    """Yield a copy of the hook, in a folder like the launchers'."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HOOK, Path(folder) / "sitecustomize.py")
        yield Path(folder)


def environment(rank: int, world: int, port: int, **more: str) -> dict[str, str]:
    """Return the variables that a launcher sets for a rank."""
    told = {"RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    found = {"PATH": os.environ["PATH"], "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    return {**found, **{name: str(value) for name, value in told.items()}, **more}


def carried(kind: str, hook: Path) -> dict[str, str]:
    """Return the environment of a kind of job. torch 2.13 has the recorder on by default."""
    more = {"TORCH_FR_BUFFER_SIZE": "0" if kind == "bare" else "2000"}
    return more | ({"PYTHONPATH": str(hook)} if "hook" in kind else {})


def job(python: str, kind: str, steps: int, port: int, hook: Path) -> tuple[float, float]:
    """Run one job; return the median step of its ranks in seconds, and their CPU seconds per step."""
    import fullmesh_hang_look as hang_look  # noqa: PLC0415 (its folder is known only now)

    more = carried(kind, hook)
    ranks = [
        subprocess.Popen(
            [python, "-c", STEPS, str(steps)],
            env=environment(rank, 2, port, **more),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    while "asked" in kind and any(one.poll() is None for one in ranks):
        time.sleep(ASKED_EVERY)
        hang_look.read_node_ranks("here", f"127.0.0.1:{port}")
    said = [json.loads(one.communicate()[0]) for one in ranks]
    return statistics.mean(one[0] for one in said), statistics.mean(one[1] for one in said)


def steps(args: argparse.Namespace) -> None:
    """Run the kinds in turn, and print the figures."""
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    with hooked() as hook:
        for number in range(args.rounds):
            for at, kind in enumerate(KINDS):
                port = 20000 + (os.getpid() + number * len(KINDS) + at) % 9000
                found[kind].append(job(args.python, kind, args.steps, port, hook))
    bare = [statistics.median(part) for part in zip(*found["bare"], strict=True)]
    print(f"{args.rounds} rounds of {args.steps} steps, load average {os.getloadavg()[0]:.0f}")
    for kind, runs in found.items():
        step, used = (statistics.median(part) for part in zip(*runs, strict=True))
        print(
            f"{kind:<24} {step * 1e3:8.3f} ms a step ({step / bare[0] - 1:+.2%}),"
            f" {used * 1e3:8.3f} ms of CPU ({used / bare[1] - 1:+.2%})"
        )


def collectives(args: argparse.Namespace) -> None:
    """Run the kinds without queries in turn, and print the figures."""
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS[:-1]}
    with hooked() as hook:
        for number in range(args.rounds):
            for at, kind in enumerate(found):
                port = 20000 + (os.getpid() + number * len(found) + at) % 9000
                done = subprocess.run(
                    [args.python, "-c", COLLECTIVES, str(args.count)],
                    env=environment(0, 1, port, **carried(kind, hook)),
                    stdout=subprocess.PIPE,
                    check=True,
                )
                each, dump, entries = json.loads(done.stdout)
                if (entries > 0) is (kind == "bare"):
                    sys.exit(f"that is no measurement: {entries} entries in a job that is {kind!r}")
                found[kind].append((each * 1e6, dump * 1e3))
    print(f"{args.rounds} rounds of {args.count}, load average {os.getloadavg()[0]:.0f}")
    bare = statistics.median(each for each, _ in found["bare"])
    for kind, runs in found.items():
        each, dump = (statistics.median(part) for part in zip(*runs, strict=True))
        print(
            f"{kind:<24} {each:8.2f} us a collective ({each - bare:+.2f}; least {min(runs)[0]:.2f}),"
            f" {(each - bare) * OF_A_STEP / 1e3:+.4f} ms a step of {OF_A_STEP}; a look {dump:.1f} ms"
        )


def ask(args: argparse.Namespace) -> None:
    """Start ranks of which one is late, and query them."""
    from fullmesh.hang import ask as asking  # noqa: PLC0415 (as above)
    from fullmesh.hang.judge import judge_job  # noqa: PLC0415

    port, late = 29000 + os.getpid() % 900, args.ranks * 5 // 8
    with hooked() as hook:
        ranks = []
        for rank in range(args.ranks):
            record = RECORDED / f"late_sleep-{int(rank == late)}.json"
            script = RANK.format(rank=rank, world=args.ranks, record=str(record), late=rank == late)
            ranks.append(
                subprocess.Popen(
                    [sys.executable, "-c", script],
                    env=environment(rank, args.ranks, port, PYTHONPATH=str(hook)),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
        for one in ranks:
            if one.stdout:
                one.stdout.readline()
        took, sizes, causes = [], [], set()
        for _ in range(args.rounds):
            begun = time.perf_counter()
            answer = asking.query_hang_node(
                "here", {"connection": "local"}, f"127.0.0.1:{port}", [PAUSE]
            )
            found = judge_job([look["ranks"] for look in answer.looks])
            took.append(time.perf_counter() - begun)
            sizes.append(answer.size / len(answer.looks) / args.ranks)
            causes.add((found[0].code, found[0].ranks))
        for one in ranks:
            one.kill()
            one.communicate()
    print(
        f"{args.ranks} ranks on one node: {causes} after {statistics.median(took):.1f} s (longest {max(took):.1f}), "
        f"{statistics.median(sizes):.0f} bytes a rank and look, load average {os.getloadavg()[0]:.0f}"
    )
    if causes != {("HG-107", (late,))}:
        sys.exit(f"that is wrong: it is rank {late} that sleeps")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True)
    one = verbs.add_parser("steps")
    one.add_argument("python")
    one.add_argument("--rounds", type=int, default=9)
    one.add_argument("--steps", type=int, default=400)
    one.set_defaults(run=steps)
    one = verbs.add_parser("collectives")
    one.add_argument("python")
    one.add_argument("--rounds", type=int, default=15)
    one.add_argument("--count", type=int, default=20000)
    one.set_defaults(run=collectives)
    one = verbs.add_parser("ask")
    one.add_argument("--ranks", type=int, default=64)
    one.add_argument("--rounds", type=int, default=5)
    one.set_defaults(run=ask)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
