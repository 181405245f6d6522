"""How much the manifest saves: site.yml on a converged lab, gated by the manifest and with every role forced.

    ./fullmesh demo && .venv/bin/python benchmarks/second_run.py [--rounds 5] [--inventory inventory/lab]

The two kinds of run are interleaved, so that a noisy machine disturbs both alike; medians and their ratio are printed.
The verification is left out of both (--skip-tags verify): it is the same work either way.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"manifest": [], "forced": ["-e", "fullmesh_converge=always"]}


def once(inventory: str, more: list[str]) -> float:
    """Seconds of one run, which must change nothing."""
    command = ["ansible-playbook", "site.yml", "-i", inventory, "--skip-tags", "verify", *more]
    begun = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    if done.returncode or any(
        "changed=" in line and "changed=0 " not in line for line in done.stdout.splitlines()
    ):
        sys.exit(f"the lab is not converged, run ./fullmesh demo first:\n{done.stdout[-3000:]}")
    return seconds


def main() -> None:
    """Run, interleaved, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inventory", default="inventory/lab")
    args = parser.parse_args()
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(args.rounds):
        for kind, more in KINDS.items():
            took[kind].append(once(args.inventory, list(more)))
    medians = {kind: statistics.median(seconds) for kind, seconds in took.items()}
    for kind, seconds in took.items():
        shown = " ".join(f"{value:.1f}" for value in seconds)
        print(f"{kind:<9} median {medians[kind]:6.1f} s   ({shown})")
    print(f"ratio forced / manifest: {medians['forced'] / medians['manifest']:.1f}")


if __name__ == "__main__":
    main()
