"""Somebody's own apt and dnf are at work when a run comes: it names them, or waits until they are through.

Real ones, held in the middle of an installation of their own: apt by its hook before dpkg runs, dnf by SIGSTOP.
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
# What a run of this phase installs itself: firewalld.
PARTS = ("--tags", "firewall", "-e", "peer_firewall_existing_services=open")
# dnf takes its locks for moments: it is stopped, let go where it has none just then, and stopped again.
STOPPED = """
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
HOLD = {
    "ubuntu": "apt-get -qq update && systemd-run --quiet --unit=somebody --setenv=DEBIAN_FRONTEND=noninteractive"
    " apt-get -qq -y -o DPkg::Pre-Invoke::='until test -e /run/go-on; do sleep 0.2; done' install nload",
    "el": STOPPED,
}
GO_ON = "touch /run/go-on; test ! -e /run/somebody.pid || kill -CONT $(cat /run/somebody.pid)"
HOLDER = {"ubuntu": "apt-get", "el": "dnf"}


class Lab:
    """Two nodes on which somebody installs something."""

    def __init__(self) -> None:
        run("./fullmesh", "lab", "down", "--name", LAB)
        assert run("./fullmesh", "lab", "up", "--name", LAB).code == 0
        words = ("./fullmesh", "lab", "status", "--json", "--name", LAB)
        status: dict[str, Any] = json.loads(read_output(*words))
        self.inventory = status["inventory"].rsplit("/", 1)[0]
        self.families = {one["name"]: one["family"] for one in status["nodes"]}

    def on(self, name: str, script: str) -> str:
        """Run a shell script on a node."""
        words = ["./fullmesh", "lab", "exec", "--name", LAB, name, "--"]
        return read_output(*words, "sh", "-c", script, seconds=300).strip()

    def go_on(self) -> None:
        """Let them go on."""
        for name in self.families:
            self.on(name, GO_ON)


@pytest.fixture
def busy() -> Iterator[Lab]:
    lab = Lab()
    for name, family in lab.families.items():
        lab.on(name, HOLD[family])
    yield lab
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_a_run_names_the_package_manager_and_waits(busy: Lab) -> None:
    refused = site(*PARTS, "-e", "fullmesh_wait_seconds=3", inventory=busy.inventory)
    assert refused.code != 0
    words = " ".join(refused.output.split())
    for family in HOLDER.values():
        assert f"{family} (pid" in words
    assert words.count("[PR-121]") >= len(busy.families)
    assert set(refused.changed().values()) == {0}

    command = ["ansible-playbook", "site.yml", "-i", busy.inventory, *PARTS]
    waits = subprocess.Popen(command, **CAPTURED)
    # a run that never comes to waiting, or never ends, ends here
    last = threading.Timer(ALL_SECONDS, waits.kill)
    last.start()
    said, released = [], False
    assert waits.stdout is not None
    for line in waits.stdout:
        said.append(line)
        if "Wait until the node is idle" in line and not released:
            released = True
            threading.Timer(6, busy.go_on).start()
    assert waits.wait() == 0, "".join(said)[-3000:]
    last.cancel()
    assert released
    # both are through: what they wanted is there, and so is what we did
    for name, family in busy.families.items():
        package = {"el": "rpm -q nload firewalld", "ubuntu": "dpkg -s nload firewalld"}[family]
        busy.on(name, package)
