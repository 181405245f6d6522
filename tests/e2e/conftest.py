"""What the end-to-end tests share: run our own commands, read Ansible's recap, look at nodes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plays import Done, run

from fullmesh.settings import ROOT

# Everything that leaves by the card that is not the cluster's, but ssh, over which the tests come.
COUNT = """
nft -f - <<'END'
table inet beside {
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
    """The user's own command."""
    return run("ansible-playbook", "site.yml", "-i", inventory, *more)


def on(node: str, command: str, seconds: float = 120) -> str:
    """Run a shell command on a lab node; its standard output."""
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


def green(done: Done) -> None:
    """It has ended well."""
    assert done.code == 0, done.output[-3000:]


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
def lab() -> Iterator[list[str]]:
    """A fresh two-node lab called demo, as a newcomer's first run finds it; its four nodes are not left to others."""
    run("./fullmesh", "lab", "down", "--name", "demo")
    up = run("./fullmesh", "lab", "up")
    assert up.code == 0
    yield nodes()
    run("./fullmesh", "lab", "down", "--name", "demo")


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The tree under test."""
    return ROOT
