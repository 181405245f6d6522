"""Lab nodes from outside: which there are, and commands on them.

Commands go into a node through its namespaces, not through ssh: a fault may take ssh away.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from devtools.lab import lifecycle, paths, plan
from devtools.lab.cli import FAMILIES_VARIABLE
from devtools.lab.podman import WITHOUT_HOST_CAPABILITIES
from devtools.lab.state import Store
from fullmesh.settings import ROOT

STEP_SECONDS = 90  # a port may stay in TIME_WAIT for 60 of them
SITE_SECONDS = 600
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C"}

# On which systems a test runs: the lab's default, or the families that the variable names.
LAB_FAMILIES = plan.check_families(os.environ.get(FAMILIES_VARIABLE) or ",".join(plan.FAMILIES))


def name_lab(name: str) -> str:
    """Return the name of a test's lab. On other systems it has one of its own, so that both can run at once."""
    return name if LAB_FAMILIES == plan.FAMILIES else "-".join([name, *LAB_FAMILIES])


@dataclass(frozen=True)
class Node:
    """A node of the bench.

    Attributes:
        name: in the inventory.
        hostname: what it calls itself.
        pid: its first process, as this machine numbers it.
        management: the address that Ansible uses.
        address: the cluster's, without prefix.
        cable: this machine's end of the cluster cable.
    """

    name: str
    hostname: str
    pid: int
    management: str
    address: str
    cable: str

    @property
    def address6(self) -> str:
        """Return the IPv6 address that the bare bench adds to the IPv4 one."""
        return "fd78::" + self.address.rsplit(".", 1)[1]

    @property
    def enter(self) -> list[str]:
        """What runs a command on it."""
        words = ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "--"]
        return [*words, *WITHOUT_HOST_CAPABILITIES]

    def on(self, script: str, *, check: bool = True) -> str:
        """Run a shell script as root; its standard output."""
        return run_shell(self.enter, script, check=check, where=self.name)


def run_shell(enter: Sequence[str], script: str, *, check: bool, where: str) -> str:
    """Run a script with ``sh -eu`` somewhere."""
    done = subprocess.run(
        [*enter, "sh", "-euc", script],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=STEP_SECONDS,
    )
    if check and done.returncode:
        raise AssertionError(f"{where}: {script}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def run_fullmesh(*words: str, seconds: float = SITE_SECONDS) -> subprocess.CompletedProcess[str]:
    """The user's command line."""
    return subprocess.run(
        ["./fullmesh", *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def find_cable(pid: int) -> str:
    """This machine's end of a node's cluster cable."""
    index = run_shell(
        ["nsenter", "-t", str(pid), "-n", "--"],
        "ip -o link show eth1 | sed -n 's/.*@if\\([0-9]*\\).*/\\1/p'",
        check=True,
        where="eth1",
    )
    links = run_shell(["env"], "ip -o link", check=True, where="this machine")
    for line in links.splitlines():
        number, name = line.split(":")[:2]
        if number == index:
            return name.strip().split("@")[0]
    raise AssertionError(f"nothing on this machine is number {index}")


def list_lab_nodes(name: str) -> dict[str, Node]:
    """The nodes of a lab that is up, the master first."""
    place = paths.find()
    podman = lifecycle.open_podman(place)
    nodes = {}
    for node in lifecycle.require(Store(place, name)).nodes:
        pid = int(podman.must("inspect", "--format", "{{.State.Pid}}", node.container))
        nodes[node.name] = Node(
            node.name,
            node.hostname,
            pid,
            node.management_address,
            node.cluster_address.split("/")[0],
            find_cable(pid),
        )
    return nodes
