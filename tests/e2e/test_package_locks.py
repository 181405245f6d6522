"""A user's apt and dnf work when a run starts: the run names them, or waits for their end.

Real ones, paused during an installation: apt by its hook before dpkg runs, dnf by SIGSTOP.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from plays import CAPTURED, read_output, run

from .conftest import site

LAB = "e2e-locks"
ALL_SECONDS = 1200
# This phase installs firewalld.
PARTS = ("--tags", "firewall", "-e", "peer_firewall_existing_services=open")
# dnf holds its locks for moments: stop it, let it continue if it has no lock, and stop it again.
PAUSE_DNF = """
dnf -q -y --refresh install nload > /run/somebody 2>&1 &
echo $! > /run/somebody.pid
for _ in $(seq 2000); do
  sleep 0.01
  kill -STOP $(cat /run/somebody.pid) || exit 1
  grep -qs . /var/cache/dnf/metadata_lock.pid /var/lib/dnf/rpmdb_lock.pid && exit 0
  kill -CONT $(cat /run/somebody.pid)
done
exit 1
"""
PAUSE = {
    "ubuntu": "apt-get -qq update && systemd-run --quiet --unit=somebody --setenv=DEBIAN_FRONTEND=noninteractive"
    " apt-get -qq -y -o DPkg::Pre-Invoke::='until test -e /run/go-on; do sleep 0.2; done' install nload",
    "el": PAUSE_DNF,
}
CONTINUE = "touch /run/go-on; test ! -e /run/somebody.pid || kill -CONT $(cat /run/somebody.pid)"
HOLDER = {"ubuntu": "apt-get", "el": "dnf"}


class Lab:
    """Two nodes on which a user installs a package."""

    def __init__(self) -> None:
        run("./fullmesh", "lab", "down", "--name", LAB)
        assert run("./fullmesh", "lab", "up", "--name", LAB).code == 0
        arguments = ("./fullmesh", "lab", "status", "--json", "--name", LAB)
        status: dict[str, Any] = json.loads(read_output(*arguments))
        self.inventory = status["inventory"].rsplit("/", 1)[0]
        self.families = {one["name"]: one["family"] for one in status["nodes"]}

    def on(self, name: str, script: str) -> str:
        """Run a shell script on a node."""
        arguments = ["./fullmesh", "lab", "exec", "--name", LAB, name, "--"]
        return read_output(*arguments, "sh", "-c", script, seconds=300).strip()

    def continue_installations(self) -> None:
        """Let the installations continue."""
        for name in self.families:
            self.on(name, CONTINUE)


@pytest.fixture
def busy_lab() -> Iterator[Lab]:
    lab = Lab()
    for name, family in lab.families.items():
        lab.on(name, PAUSE[family])
    yield lab
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_run_names_the_package_manager_and_waits(busy_lab: Lab) -> None:
    refused = site(*PARTS, "-e", "fullmesh_wait_seconds=3", inventory=busy_lab.inventory)
    assert refused.code != 0
    arguments = " ".join(refused.output.split())
    for family in HOLDER.values():
        assert f"{family} (pid" in arguments
    assert arguments.count("[PR-121]") >= len(busy_lab.families)
    assert set(refused.changed().values()) == {0}

    command = ["ansible-playbook", "site.yml", "-i", busy_lab.inventory, *PARTS]
    waiting_run = subprocess.Popen(command, **CAPTURED)
    # kill a run that never waits or never ends
    timeout = threading.Timer(ALL_SECONDS, waiting_run.kill)
    timeout.start()
    lines, released = [], False
    assert waiting_run.stdout is not None
    for line in waiting_run.stdout:
        lines.append(line)
        if "Wait until the node is idle" in line and not released:
            released = True
            threading.Timer(6, busy_lab.continue_installations).start()
    assert waiting_run.wait() == 0, "".join(lines)[-3000:]
    timeout.cancel()
    assert released
    # both are done: their package is installed, and so is ours
    for name, family in busy_lab.families.items():
        package = {"el": "rpm -q nload firewalld", "ubuntu": "dpkg -s nload firewalld"}[family]
        busy_lab.on(name, package)
