"""Make faults on two lab nodes, one after the other, and ask each adapter about every one.

    PYTHONPATH=src:tests:tests/support:tests/unit python benchmarks/faults/run.py
    ... run.py --adapter 'mine=/opt/mine/find-fault' --minutes 30

The faults are those of ``tests/causes`` (links, environment, GPU stand-ins) and those of ``tests/surprises``, one for
each seed. For a random one, the oracle of ``tests/surprises`` says whether it does harm: if not, it is a harmlessly
changed state. After every tenth state, the nodes are asked as they are, healthy. ``--order`` draws the order of the
states, so that a run that ends early (``--minutes``) is a sample. A later run with the same ``--out`` continues it.

An adapter is a command. It gets the inventory and the names of the nodes as arguments, and prints one JSON object on a
line: ``{"node": "n2", "peer": "n1", "direction": "n1 -> n2", "cause": "port 29500 drop"}``, or ``{}`` if nothing is
wrong. It may log in to the nodes, as the inventory says.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from adapters import ADAPTERS
from causes.cases import FAULTS
from causes.faults import BARE, Fault
from faults import checks
from faults.bench import KERNEL_RANGE, Bench, bench, fullmesh
from faults.conftest import address_by_hand, plain_inventory
from score import Trial, Truth, list_misses, parse_answer, render_table
from surprises.generate import surprise
from surprises.ground import Ground, grounds_of

from fullmesh.settings import ROOT

WORK = ROOT / ".fullmesh/fault-benchmark"
SECONDS = 150  # for an answer
HEALTHY_EVERY = 10
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
        with checks.broken(where, state.fault) as pair:
            yield describe_truth(where, state.fault, pair)
    elif state.seed >= 0:
        fault = surprise(state.seed)
        with ground.broken(fault) as victim:
            failed = ground.oracle()
            if not failed:
                yield Truth()
                return
            (peer,) = (one for one in ground.names if one != victim)
            broken = {(one, other) for one, other, _ in failed}
            # a finding about a node's own settings has no direction
            ways = ("", f"{victim} <-> {peer}", f"{peer} <-> {victim}")
            ways += (f"{victim} -> {peer}",) if (victim, peer) in broken else ()
            ways += (f"{peer} -> {victim}",) if (peer, victim) in broken else ()
            yield Truth(victim, "", ways, fault.words)
    else:
        yield Truth()


def describe_truth(where: Bench, fault: Fault, pair: tuple[str, str]) -> Truth:
    """Return the truth of a fault: the place that its own test expects, and words of its name and code."""
    wanted = checks.expected(where, fault, pair)
    cause, _ = checks.CASES[fault.case]
    words = (fault.code or cause.code, *(one for one in fault.name.split("-") if len(one) > 2))  # noqa: PLR2004 (letters)
    direction = wanted.get("direction", "")
    return Truth(wanted["node"], wanted.get("peer", ""), (direction,) if direction else (), words)


def ask_adapter(command: Sequence[str], inventory: Path, nodes: Sequence[str]) -> dict[str, object]:
    """Run an adapter. Return the fields of its trial."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    found: dict[str, object] = {"answer": {}, "failed": ""}
    try:
        done = subprocess.run(
            [*command, str(inventory), *nodes],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=SECONDS,
        )
        found["answer"] = parse_answer(done.stdout)
    except (ValueError, OSError, subprocess.TimeoutExpired) as error:
        found["failed"] = f"{type(error).__name__}: {error}"[:200]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**found, "seconds": round(time.monotonic() - begun, 2), "cpu_seconds": round(cpu, 2)}


def run_states(
    where: Bench,
    states: Sequence[State],
    adapters: dict[str, list[str]],
    path: Path,
    minutes: float,
) -> None:
    """Ask all adapters about each state, and write a row for each answer."""
    known = {one.case for one in read_trials(path)}
    (ground,) = grounds_of(where)
    names, until = list(where.nodes)[:2], time.monotonic() + 60 * minutes
    for state in states:
        if state.name in known:
            continue
        if time.monotonic() > until:
            break
        variables = state.fault.variables if state.fault else {}
        victim = checks.roles(where, state.fault)[0] if state.fault else names[0]
        inventory = where.chosen(names, {victim: variables})
        rows = []
        try:
            with make_state(where, ground, state) as truth:
                kind = state.kind if truth.node or state.kind == "healthy" else "harmless"
                for name, command in adapters.items():
                    said = ask_adapter(command, inventory, names)
                    rows.append(asdict(Trial(state.name, kind, name, truth, **said)))  # type: ignore[arg-type]  # checked by parse_answer
        except AssertionError as refused:
            print(f"{state.name}: not made: {str(refused)[-100:]}", flush=True)
            continue
        with path.open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps(row) + "\n" for row in rows)
        print(
            f"{state.name}: "
            + ", ".join(f"{row['adapter']} {'yes' if row['answer'] else 'no'}" for row in rows),
            flush=True,
        )


def read_trials(path: Path) -> list[Trial]:
    """Read the rows of earlier runs."""
    trials = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        row = json.loads(line)
        truth = {
            key: tuple(held) if isinstance(held, list) else held
            for key, held in row["truth"].items()
        }
        trials.append(Trial(**{**row, "truth": Truth(**truth)}))
    return trials


def parse_adapters(given: Sequence[str]) -> dict[str, list[str]]:
    """Return the command of each adapter: the built-in ones, and those of the command line."""
    script = str(Path(__file__).with_name("adapters.py"))
    found = {name: [sys.executable, script, name] for name in ADAPTERS}
    for one in given:
        name, _, command = one.partition("=")
        found[name] = shlex.split(command)
    return found


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
    parser.add_argument("--table", action="store_true", help="only print the figures")
    want = parser.parse_args()
    want.out.parent.mkdir(parents=True, exist_ok=True)
    if not want.table:
        where = bench(want.lab, 2, KERNEL_RANGE)
        try:
            address_by_hand(where)
            where.inventory = plain_inventory(where, want.out.parent / "inventory")
            states = list_states(want.seeds, want.order)
            run_states(where, states, parse_adapters(want.adapter), want.out, want.minutes)
        finally:
            fullmesh("lab", "down", "--name", want.lab)
    trials = read_trials(want.out)
    print(render_table(trials))
    print("\n".join(["Fullmesh's misses:", *list_misses(trials, "fullmesh")]))


if __name__ == "__main__":
    main()
