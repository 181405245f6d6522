"""Shared by the end-to-end tests: run commands, read Ansible's recap, query nodes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plays import Done, run

from fullmesh.settings import ROOT

# Count packets that leave by the other interface, except ssh, which the tests use.
COUNT_PACKETS = """
nft -f - <<'END'
table inet lab_test {
  counter left { }
  chain out {
    type filter hook output priority 500; policy accept;
    oifname eth0 tcp sport 22 accept
    oifname eth0 meta l4proto { tcp, udp } counter name "left"
  }
}
END
"""


def site(*more: str, inventory: str = "inventory/lab") -> Done:
    """Run the site as a user does."""
    return run("ansible-playbook", "site.yml", "-i", inventory, *more)


def run_on_node(node: str, command: str, seconds: float = 120) -> str:
    """Run a shell command on a lab node. Return its output."""
    done = subprocess.run(
        ["./fullmesh", "lab", "exec", node, "--", "sh", "-c", command],
        cwd=ROOT,
        timeout=seconds,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{node}: {command}: {done.stderr}"
    return done.stdout.strip()


def expect_success(done: Done) -> None:
    """Check that a command succeeded."""
    assert done.code == 0, done.output[-3000:]


def load_latest_result(runs: Path = ROOT / "runs") -> dict[str, Any]:
    """Load the newest result.json."""
    newest = max(runs.glob("*/result.json"), key=lambda path: path.stat().st_mtime)
    result: dict[str, Any] = json.loads(newest.read_text())
    return result


def list_nodes() -> list[str]:
    """List the nodes of the lab."""
    done = subprocess.run(
        ["./fullmesh", "lab", "status", "--json", "--name", "demo"],
        cwd=ROOT,
        timeout=120,
        check=True,
        capture_output=True,
        text=True,
    )
    return [node["name"] for node in json.loads(done.stdout)["nodes"]]


# Files that the system itself changes under /etc: boot ids, caches of package managers, the resolver's link, and
# accounts of packages, which distributions never remove (chrony's).
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


def digest_etc(node: str) -> list[str]:
    """Digest the files under /etc of a node, one line each: path, mode, owner, link target, checksum."""
    return run_on_node(node, ETC_DIGEST).splitlines()


@pytest.fixture(scope="session")
def lab() -> Iterator[list[str]]:
    """Start a new lab called demo with two nodes, as in a first run."""
    run("./fullmesh", "lab", "down", "--name", "demo")
    up = run("./fullmesh", "lab", "up")
    assert up.code == 0
    yield list_nodes()
    run("./fullmesh", "lab", "down", "--name", "demo")


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Return the checkout under test."""
    return ROOT
