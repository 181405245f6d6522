"""Measure how much time the manifest saves: site.yml on a converged lab, with the manifest and with every role forced.

Both also run without callback_plugins/fullmesh_preload.py, which shows how much preloading saves.

    ./fullmesh demo && .venv/bin/python benchmarks/second_run.py [--rounds 5] [--inventory inventory/lab]

The kinds of run are interleaved, so that a noisy machine affects all in the same way. The output has the medians, their
ratios, and the CPU time of Ansible's workers on this machine. The verification is left out (--skip-tags verify),
because it is the same in all runs.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FORCED = ["-e", "fullmesh_converge=always"]
BARE = {"ANSIBLE_CALLBACKS_ENABLED": "fullmesh_progress"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "manifest": ([], {}),
    "manifest, nothing preloaded": ([], BARE),
    "forced": (FORCED, {}),
    "forced, nothing preloaded": (FORCED, BARE),
}


def spent() -> float:
    """Return the CPU seconds of all children until now, with their own children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def once(inventory: str, more: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Return the seconds and CPU seconds of one run, which must change nothing."""
    command = ["ansible-playbook", "site.yml", "-i", inventory, "--skip-tags", "verify", *more]
    begun, before = time.monotonic(), spent()
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    seconds, cpu = time.monotonic() - begun, spent() - before
    if done.returncode or any(
        "changed=" in line and "changed=0 " not in line for line in done.stdout.splitlines()
    ):
        sys.exit(f"the lab is not converged, run ./fullmesh demo first:\n{done.stdout[-3000:]}")
    return seconds, cpu


def main() -> None:
    """Run the kinds interleaved, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inventory", default="inventory/lab")
    args = parser.parse_args()
    took: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for _ in range(args.rounds):
        for kind, (more, env) in KINDS.items():
            took[kind].append(once(args.inventory, list(more), env))
    medians = {}
    for kind, runs in took.items():
        seconds, cpu = (list(column) for column in zip(*runs, strict=True))
        medians[kind] = statistics.median(seconds)
        shown = " ".join(f"{value:.1f}" for value in seconds)
        busy = statistics.median(cpu)
        print(f"{kind:<27} median {medians[kind]:6.1f} s, CPU {busy:5.1f} s   ({shown})")
    print(f"ratio forced / manifest: {medians['forced'] / medians['manifest']:.1f}")
    for kind in ("manifest", "forced"):
        print(
            f"ratio nothing preloaded / {kind}: {medians[f'{kind}, nothing preloaded'] / medians[kind]:.2f}"
        )


if __name__ == "__main__":
    main()
