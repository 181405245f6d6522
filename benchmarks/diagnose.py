"""Measure how much a diagnosis costs compared with the cheapest task that Ansible runs on the same nodes.

    ./fullmesh lab up --name bench && .venv/bin/python benchmarks/diagnose.py \\
        --inventory /var/lib/fullmesh-lab/labs/bench/inventory [--rounds 5] [--before CHECKOUT]

``ansible -m ping``, ``./fullmesh diagnose`` and that of another checkout are interleaved, so that a noisy machine
affects all in the same way. The output has the medians, their differences and ratios, and the load, which shows how
reliable the seconds are.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Seconds beyond the ping, on an idle machine with two cores: for two nodes without configuration, and for eight of a
# lab.
TARGETS = {2: 1.5, 8: 6.0}


def seconds_of(command: list[str], folder: Path) -> float:
    """Return the seconds of a command. Its findings do not matter, but it must not fail itself."""
    begun = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return time.monotonic() - begun


def main() -> None:
    """Run the commands interleaved, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inventory", default="inventory/lab")
    parser.add_argument("--before", type=Path, help="another checkout, to compare with")
    args = parser.parse_args()
    inventory = str(Path(args.inventory).resolve())
    diagnose = ["./fullmesh", "diagnose", "-i", inventory]
    kinds = {"ping": (["ansible", "all", "-i", inventory, "-m", "ping"], ROOT)}
    kinds["diagnose"] = (diagnose, ROOT)
    if args.before:
        kinds["before"] = (diagnose, args.before)
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(args.rounds):
        for kind, (command, folder) in kinds.items():
            took[kind].append(seconds_of(command, folder))
    medians = {kind: statistics.median(held) for kind, held in took.items()}
    for kind, held in took.items():
        own, pings = medians[kind] - medians["ping"], medians[kind] / medians["ping"]
        each = " ".join(f"{one:.1f}" for one in held)
        print(
            f"{kind:<9} median {medians[kind]:5.1f} s, own {own:4.1f} s, {pings:.1f} pings ({each})"
        )
    print(f"targets   {', '.join(f'{nodes} nodes {own:g} s' for nodes, own in TARGETS.items())}")
    print(f"load      {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
