"""What a diagnosis costs beyond the cheapest thing that Ansible does with the same nodes.

    ./fullmesh lab up --name bench && .venv/bin/python benchmarks/diagnose.py \\
        --inventory /var/lib/fullmesh-lab/labs/bench/inventory [--rounds 5]

``ansible -m ping`` and ``./fullmesh diagnose`` are interleaved, so that a noisy machine disturbs both alike. The
medians, their difference and their ratio are printed, with the load, which says how far the seconds may be trusted.
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
TARGET = 5.0  # seconds of our own, for two nodes on an idle machine


def seconds_of(command: list[str]) -> float:
    """How long a command takes; what it finds does not matter, that it ends without a fault of its own does."""
    begun = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return time.monotonic() - begun


def main() -> None:
    """Run, interleaved, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inventory", default="inventory/lab")
    args = parser.parse_args()
    kinds = {
        "ping": ["ansible", "all", "-i", args.inventory, "-m", "ping"],
        "diagnose": ["./fullmesh", "diagnose", "-i", args.inventory],
    }
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(args.rounds):
        for kind, command in kinds.items():
            took[kind].append(seconds_of(command))
    medians = {kind: statistics.median(held) for kind, held in took.items()}
    for kind, held in took.items():
        print(
            f"{kind:<9} median {medians[kind]:6.1f} s   ({' '.join(f'{one:.1f}' for one in held)})"
        )
    own = medians["diagnose"] - medians["ping"]
    print(
        f"own work  {own:.1f} s (target {TARGET:g}), ratio {medians['diagnose'] / medians['ping']:.1f}"
    )
    print(f"load      {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
