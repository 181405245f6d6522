"""Make unforeseen faults, one seed after the other, and score the diagnosis.

``PYTHONPATH=src:tests:tests/support python -m surprises.run --lab NAME --seeds 0-199`` writes its
results to ``.fullmesh/surprises``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

from faults.bench import KERNEL_RANGE, start_bench
from faults.conftest import set_addresses

from fullmesh.settings import ROOT

from . import table
from .generate import Surprise, draw_surprise
from .ground import Ground, group_nodes
from .score import Score, drop_boot_findings, is_flawless, list_doubted_ports, score_diagnosis

WORK = ROOT / ".fullmesh/surprises"
TRIED = 17  # connections of the oracle: eight ports in both directions, and the store's
BUSY = "while True: pass"
SHRINK_MOST = 6
ASKED_AGAIN = 6


def add_row(row: Score, path: Path) -> None:
    """Add a row."""
    with path.open("a") as stream:
        stream.write(json.dumps(row.as_dict()) + "\n")


def try_fault(ground: Ground, seed: int, fault: Surprise) -> Score | None:
    """Make a fault, then run the oracle and the diagnosis. Return None if the kernel rejects the fault."""
    try:
        with ground.broken(fault) as victim:
            failed = ground.oracle()
            begun = time.monotonic()
            findings = drop_boot_findings(ground.diagnose()["findings"])
            took = time.monotonic() - begun
            for _ in range(ASKED_AGAIN if findings else 0):
                # a random match, a rate limit or the kernel's choice of ports may affect only one
                # of the two
                failed = failed or ground.oracle(list_doubted_ports(findings))
    except AssertionError as refused:
        print_line(f"{seed:4} not made: {str(refused)[-120:].strip()}")
        return None
    about = {"seed": seed, "kind": fault.kind, "script": fault.script, "victim": victim}
    row = score_diagnosis(about, fault.words, failed, TRIED, findings)
    return replace(row, seconds=round(took, 1))


def try_faults(
    grounds: Sequence[Ground], seeds: Iterable[int], *, shrink: bool = False
) -> Iterator[Score | None]:
    """Make a fault for each seed, in order.

    Each ground has one at a time, with its own oracle and diagnosis.

    A fault costs 12 s of waiting for packets that never arrive, and 1 s of CPU time.
    """
    free: SimpleQueue[Ground] = SimpleQueue()
    for ground in grounds:
        free.put(ground)

    def one(seed: int) -> Score | None:
        ground, fault = free.get(), draw_surprise(seed)
        try:
            row = try_fault(ground, seed, fault)
            if shrink and row and not is_flawless(row):
                fault = shrink_fault(ground, seed, fault)
                row = try_fault(ground, seed, fault) or row
            left = ground.oracle()
            assert not left, f"seed {seed} was not taken back: {fault.undo}: {left}"
            return row
        finally:
            free.put(ground)

    with ThreadPoolExecutor(len(grounds)) as pool:
        yield from pool.map(one, seeds)


def shrink_fault(ground: Ground, seed: int, fault: Surprise) -> Surprise:
    """Return the smallest fault that is still misjudged."""
    for _ in range(SHRINK_MOST):
        for smaller in fault.smaller():
            row = try_fault(ground, seed, smaller)
            if row and not is_flawless(row):
                fault = smaller
                break
        else:
            break
    return fault


@contextmanager
def load_cpus(processes: int) -> Iterator[None]:
    """Keep the CPUs busy."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def diagnose_healthy_nodes(ground: Ground, count: int, processes: int) -> Iterator[Score]:
    """Diagnose healthy nodes while the CPUs are busy."""
    with load_cpus(processes):
        for index in range(count):
            begun = time.monotonic()
            findings = drop_boot_findings(ground.diagnose()["findings"])
            about = {
                "seed": -1 - index,
                "kind": "healthy",
                "script": f"load {os.getloadavg()[0]:.0f}, {time.time():.0f}",
                "victim": "",
            }
            row = score_diagnosis(about, (), {}, TRIED, findings)
            yield replace(row, seconds=round(time.monotonic() - begun, 1))


def print_line(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def parse_seeds(text: str) -> Sequence[int]:
    """Parse ``0-99`` or ``3,7,12``."""
    if "-" in text:
        first, last = text.split("-")
        return range(int(first), int(last) + 1)
    return [int(one) for one in text.split(",") if one]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", default="surprises")
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--pairs", type=int, default=1, help="of nodes, side by side")
    parser.add_argument("--healthy", type=int, default=0)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--out", default="rows.jsonl")
    parser.add_argument("--table", action="store_true", help="only print the figures of all rows")
    want = parser.parse_args()
    if want.table:
        print_line(table.render_page(table.read_rows(sorted(WORK.glob("*.jsonl")))))
        return
    WORK.mkdir(parents=True, exist_ok=True)
    path = WORK / want.out
    made = start_bench(want.lab, 2 * want.pairs, KERNEL_RANGE)
    set_addresses(made)
    grounds = group_nodes(made)
    for row in try_faults(grounds, parse_seeds(want.seeds), shrink=want.shrink):
        if row:
            add_row(row, path)
            print_line(format_row(row))
    for row in diagnose_healthy_nodes(grounds[0], want.healthy, want.load):
        add_row(row, path)
        print_line(format_row(row))


def format_row(row: Score) -> str:
    """Return a row in one line."""
    marks = "".join(
        letter if is_met else "-"
        for letter, is_met in zip(
            "hfndpo!",
            (row.hit, row.found, row.node, row.direction, row.port, row.one, row.named),
            strict=True,
        )
    )
    verdict = "ok" if is_flawless(row) else "MISS" if row.hit else "FALSE"
    script = " / ".join(row.script.replace("RULES", "").split("\n"))[:170]
    return f"{row.seed:4} {verdict:5} {marks} {','.join(row.codes)} [{row.victim}] {script}\n       {row.cause[:150]}"


if __name__ == "__main__":
    main()
