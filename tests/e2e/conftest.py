"""What the end-to-end tests share: run our own commands, read Ansible's recap, look at nodes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fullmesh.settings import ROOT

RECAP = re.compile(r"^(\S+)\s+: ((?:\w+=\d+\s*)+)$", re.MULTILINE)


@dataclass
class Done:
    """A finished command."""

    code: int
    output: str
    seconds: float

    def recap(self) -> dict[str, dict[str, int]]:
        """Ansible's PLAY RECAP: host -> counter -> number."""
        return {
            host: {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", counters)}
            for host, counters in RECAP.findall(self.output)
        }

    def says(self, sentence: str) -> bool:
        """Whether the output has *sentence*, however YAML broke its lines."""
        return " ".join(sentence.split()) in " ".join(self.output.split())

    def changed(self) -> dict[str, int]:
        """Host -> number of changes, localhost left out."""
        return {host: c["changed"] for host, c in self.recap().items() if host != "localhost"}


def run(*command: str, seconds: float = 900) -> Done:
    """Run a command in the checkout; what it prints stands in the test's log."""
    started = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        timeout=seconds,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    took = time.monotonic() - started
    sys.stdout.write(
        f"\n$ {' '.join(command)}\n{done.stdout[-20000:]}\nexit {done.returncode} in {took:.1f} s\n"
    )
    return Done(done.returncode, done.stdout, took)


def site(*more: str, inventory: str = "inventory/lab") -> Done:
    """The user's own command."""
    return run("ansible-playbook", "site.yml", "-i", inventory, *more)


def on(node: str, command: str) -> str:
    """Run a shell command on a lab node; its standard output."""
    done = subprocess.run(
        ["./fullmesh", "lab", "exec", node, "--", "sh", "-c", command],
        cwd=ROOT,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{node}: {command}: {done.stderr}"
    return done.stdout.strip()


def latest(runs: Path = ROOT / "runs") -> dict[str, Any]:
    """The newest result.json."""
    newest = max(runs.glob("*/result.json"), key=lambda path: path.stat().st_mtime)
    result: dict[str, Any] = json.loads(newest.read_text())
    return result


def nodes() -> list[str]:
    """The nodes of the lab."""
    done = subprocess.run(
        ["./fullmesh", "lab", "status", "--json", "--name", "demo"],
        cwd=ROOT,
        timeout=120,
        check=True,
        capture_output=True,
        text=True,
    )
    return [node["name"] for node in json.loads(done.stdout)["nodes"]]


# What the system itself rewrites under /etc: boot ids, package managers' caches, the resolver's link, and the accounts
# that a distribution's packages make and by its policy never remove (chrony's).
NOT_COMPARED = (
    "*.cache",
    "resolv.conf",
    "machine-id",
    "adjtime",
    ".updated",
    "passwd*",
    "group*",
    "shadow*",
    "gshadow*",
    "subuid*",
    "subgid*",
)
ETC_DIGEST = (
    "cd /etc && find . -xdev \\( -type f -o -type l \\) "
    + " ".join(f"! -name '{name}'" for name in NOT_COMPARED)
    + " -printf '%p %m %U:%G %l ' -exec sh -c '[ -L \"$1\" ] && echo link || sha256sum < \"$1\"' _ {} \\; | sort"
)


def etc(node: str) -> list[str]:
    """One line for each file under /etc of a node: path, mode, owner, link target, checksum."""
    return on(node, ETC_DIGEST).splitlines()


@pytest.fixture(scope="session")
def lab() -> list[str]:
    """A fresh two-node lab called demo, as a newcomer's first run finds it."""
    run("./fullmesh", "lab", "down", "--name", "demo")
    up = run("./fullmesh", "lab", "up")
    assert up.code == 0
    return nodes()


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The tree under test."""
    return ROOT
