"""Make faults on pairs of lab nodes, one after the other, and ask each adapter about every one.

    PYTHONPATH=src:tests:tests/support:tests/unit python benchmarks/faults/run.py
    ... run.py --torch VENV_WITH_TORCH --adapter 'mine=/opt/mine/find-fault' --minutes 30

The faults are those of ``tests/causes`` (links, environment, GPU stand-ins) and those of ``tests/surprises``, one for
each seed. For a random one, the oracle of ``tests/surprises`` decides whether it does harm. If not, it counts as a
harmlessly changed state. After every tenth state, the adapters are asked about healthy nodes. ``--order`` sets the
random order of the states, so that a run that ends early (``--minutes``) is a sample. A later run with the same
``--out``
continues it: it asks new adapters, and those that had no valid answer.

An adapter is a command. It gets the inventory and the names of the nodes as arguments, and prints one JSON object on a
line: ``{"node": "n2", "peer": "n1", "direction": "n1 -> n2", "cause": "port 29500 drop"}``, or ``{}`` if nothing is
wrong. It may log in to the nodes with the inventory's settings.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from adapters import ADAPTERS, TOGETHER
from causes.cases import FAULTS, JOBS
from causes.faults import BARE, Fault
from faults import checks
from faults.bench import KERNEL_RANGE, Bench, start_bench
from faults.conftest import set_addresses, write_plain_inventory
from hang_jobs import JOBS as SCRIPTS
from lab_nodes import run_fullmesh
from score import Trial, Truth, list_misses, parse_answer, render_table
from surprises.generate import draw_surprise
from surprises.ground import Ground, group_nodes

from fullmesh.settings import ROOT

WORK = ROOT / ".fullmesh/fault-benchmark"
SECONDS = 90  # for an answer
HEALTHY_EVERY = 10
PAIRS = 2  # of nodes; each has its own state
SEEDS = 30


@dataclass(frozen=True)
class State:
    """A state of the nodes: a fault of ``tests/causes``, a seed of ``tests/surprises``, or neither."""

    name: str
    kind: str
    fault: Fault | None = None
    seed: int = -1


def list_states(seeds: int, order: int) -> list[State]:
    """List all states in the order of a run."""
    states = [State(one.name, classify_fault(one), one) for one in FAULTS if one.lab == BARE] + [
        State(f"seed {seed}", "random", seed=seed) for seed in range(seeds)
    ]
    random.Random(order).shuffle(states)  # noqa: S311 (repeatable)
    for at in range(len(states) // HEALTHY_EVERY, 0, -1):
        states.insert(at * HEALTHY_EVERY, State(f"healthy {at}", "healthy"))
    return states


def classify_fault(fault: Fault) -> str:
    """Return the kind of a fault: of a GPU, of a link, or of a node and its settings."""
    if "gpu" in fault.name:
        return "gpu"
    return "link" if "direction" in fault.expect else "environment"


@contextmanager
def make_state(where: Bench, ground: Ground, state: State) -> Iterator[Truth]:
    """Make a state, yield its truth, and restore the nodes.

    Raises:
        AssertionError: the nodes do not accept it.
    """
    if state.fault is not None:
        with checks.make_fault(where, state.fault) as pair:
            yield describe_truth(where, state.fault, pair)
    elif state.seed >= 0:
        fault = draw_surprise(state.seed)
        with ground.broken(fault) as victim:
            failed = ground.oracle()
            if not failed:
                yield Truth()
                return
            (peer,) = (one for one in ground.names if one != victim)
            broken = {(one, other) for one, other, _ in failed}
            # a finding about a node's own settings has no direction
            ways: tuple[str, ...] = ("", f"{victim} <-> {peer}", f"{peer} <-> {victim}")
            ways += (f"{victim} -> {peer}",) if (victim, peer) in broken else ()
            ways += (f"{peer} -> {victim}",) if (peer, victim) in broken else ()
            yield Truth(victim, "", ways, fault.words)
    else:
        yield Truth()


def describe_truth(where: Bench, fault: Fault, pair: tuple[str, str]) -> Truth:
    """Return the truth of a fault: the place that its own test expects, and words of its name and code."""
    wanted = checks.list_expected_fields(where, fault, pair)
    cause, _ = checks.CASES[fault.case]
    words = (fault.code or cause.code, *(one for one in fault.name.split("-") if len(one) > 2))  # noqa: PLR2004 (letters)
    direction = wanted.get("direction", "")
    return Truth(wanted["node"], wanted.get("peer", ""), (direction,) if direction else (), words)


def ask_adapter(command: Sequence[str], inventory: Path, nodes: Sequence[str]) -> dict[str, object]:
    """Run an adapter. Return the fields of its trial."""
    begun, found = time.monotonic(), {"answer": {}, "failed": ""}
    cpu = 0.0
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        try:
            process = subprocess.Popen(
                [*command, str(inventory), *nodes],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            timer = threading.Timer(SECONDS, os.killpg, (process.pid, signal.SIGKILL))
            timer.start()
            _, status, used = os.wait4(process.pid, 0)  # the usage of this command alone
            timer.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
            cpu = used.ru_utime + used.ru_stime
            output.seek(0)
            found["answer"] = parse_answer(output.read())
        except (ValueError, OSError) as error:
            late = time.monotonic() - begun > SECONDS
            found["failed"] = f"deadline of {SECONDS} s" if late else f"{error}"[:200]
    return {**found, "seconds": round(time.monotonic() - begun, 2), "cpu_seconds": round(cpu, 2)}


def ask_adapters(
    adapters: Mapping[str, Sequence[str]],
    inventory: Path,
    nodes: Sequence[str],
    together: Sequence[str] = TOGETHER,
) -> dict[str, dict[str, object]]:
    """Run the adapters of *together* at once, then each other one alone."""
    joint = [name for name in adapters if name in together]
    found = {}
    if joint:
        with ThreadPoolExecutor(len(joint)) as pool:
            asked = pool.map(lambda name: ask_adapter(adapters[name], inventory, nodes), joint)
            found = dict(zip(joint, asked, strict=True))
    alone = [name for name in adapters if name not in together]
    return found | {name: ask_adapter(adapters[name], inventory, nodes) for name in alone}


@dataclass
class Recorder:
    """The rows of a run. They are written after each state."""

    path: Path
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, rows: Sequence[Trial], seconds: float) -> None:
        """Write the rows of a state."""
        answers = (f"{one.adapter} {'yes' if one.answer else one.failed or 'no'}" for one in rows)
        with self.lock, self.path.open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps(asdict(row)) + "\n" for row in rows)
            print(f"{seconds:.0f} s: {rows[0].case}: {', '.join(answers)}", flush=True)


def run_states(
    where: Bench,
    states: Sequence[State],
    adapters: dict[str, list[str]],
    path: Path,
    minutes: float,
) -> None:
    """Ask about each state the adapters that have no valid answer yet, on each pair of nodes at once."""
    known = {(one.case, one.adapter) for one in read_trials(path) if not one.failed}
    left: SimpleQueue[tuple[State, dict[str, list[str]]]] = SimpleQueue()
    for state in states:
        wanted = {one: adapters[one] for one in adapters if (state.name, one) not in known}
        if wanted:
            left.put((state, wanted))
    recorder, until = Recorder(path), time.monotonic() + 60 * minutes
    pairs = split_pairs(where)
    grounds = [group_nodes(pair)[0] for pair in pairs]

    def work(pair: Bench, ground: Ground) -> None:
        while time.monotonic() < until:
            try:
                state, wanted = left.get_nowait()
            except Empty:
                return
            ask_state(pair, ground, state, wanted, recorder)

    with ThreadPoolExecutor(len(pairs)) as pool:
        list(pool.map(work, pairs, grounds))


def split_pairs(where: Bench) -> list[Bench]:
    """Return a bench for each two nodes. Their indexes differ, because they name faults outside of the nodes."""
    nodes = list(where.nodes.items())
    return [
        replace(where, nodes=dict(nodes[at : at + 2]), index=where.index + 100 * at)
        for at in range(0, len(nodes), 2)
    ]


def ask_state(
    where: Bench,
    ground: Ground,
    state: State,
    adapters: Mapping[str, Sequence[str]],
    recorder: Recorder,
) -> None:
    """Make a state, ask the adapters and record their answers."""
    names = list(where.nodes)
    fault = state.fault
    inventory = checks.choose_inventory(where, fault) if fault else where.write_inventory(names)
    begun = time.monotonic()
    try:
        with make_state(where, ground, state) as truth:
            kind = state.kind if truth.node or state.kind == "healthy" else "harmless"
            found = ask_adapters(adapters, inventory, names)
    except (AssertionError, RuntimeError, subprocess.TimeoutExpired) as refused:
        print(f"{state.name}: not made: {str(refused)[-100:]}", flush=True)
        if left := ground.oracle():  # later answers would be about this state
            raise SystemExit(f"{state.name}: not undone: {left}") from refused
        return
    rows = [Trial(state.name, kind, one, truth, **found[one]) for one in found]  # type: ignore[arg-type]  # checked by parse_answer
    recorder.add(rows, time.monotonic() - begun)


def read_trials(path: Path) -> list[Trial]:
    """Read the rows of earlier runs. If several are about the same state and adapter, the last one counts."""
    trials = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        row = json.loads(line)
        truth: dict[str, Any] = {
            key: tuple(held) if isinstance(held, list) else held
            for key, held in row["truth"].items()
        }
        trials[row["case"], row["adapter"]] = Trial(**{**row, "truth": Truth(**truth)})
    return list(trials.values())


def parse_adapters(given: Sequence[str]) -> dict[str, list[str]]:
    """Return the command of each adapter: the built-in ones, and those of the command line."""
    script = str(Path(__file__).with_name("adapters.py"))
    found = {name: [sys.executable, script, name] for name in ADAPTERS}
    for one in given:
        name, _, command = one.partition("=")
        found[name] = shlex.split(command)
    return found


def run_hangs(venv: Path, out: Path) -> None:
    """Run ``hang.py``: some jobs at once. Each has its own processes, mounts and network, so no other job is seen."""
    names = [name for name in SCRIPTS if name in JOBS]
    script = [
        *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("sh", "-c", '"$@"; exit $?', "sh"),  # process 1 of the namespace
        *("unshare", "--mount", "--net"),
        *(sys.executable, str(Path(__file__).with_name("hang.py"))),
    ]
    running = [
        subprocess.Popen([*script, str(venv), str(out), *names[at::PAIRS]]) for at in range(PAIRS)
    ]
    for one in running:
        one.wait()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", default="fault-benchmark")
    parser.add_argument("--adapter", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of random changes")
    parser.add_argument("--order", type=int, default=0, help="seed of the order")
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--out", type=Path, default=WORK / "trials.jsonl")
    parser.add_argument(
        "--torch", type=Path, help="an environment with torch, for hung jobs (hang.py)"
    )
    parser.add_argument("--table", action="store_true", help="only print the figures")
    want = parser.parse_args()
    want.out.parent.mkdir(parents=True, exist_ok=True)
    hangs = want.out.with_name("hang.jsonl")
    if want.torch and not want.table:
        run_hangs(want.torch, hangs)
    if not want.table:
        where = start_bench(want.lab, 2 * PAIRS, KERNEL_RANGE)
        try:
            set_addresses(where)
            where.inventory = write_plain_inventory(where, want.out.parent / "inventory")
            states = list_states(want.seeds, want.order)
            run_states(where, states, parse_adapters(want.adapter), want.out, want.minutes)
        finally:
            run_fullmesh("lab", "down", "--name", want.lab)
    for path, name in ((want.out, "fullmesh"), (hangs, "fullmesh hang")):
        trials = read_trials(path)
        print(render_table(trials))
        print("\n".join(["Fullmesh's misses:", *list_misses(trials, name)]), end="\n\n")


if __name__ == "__main__":
    main()
