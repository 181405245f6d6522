"""Real lab nodes, commands on them, and the diagnosis as a user starts it.

Commands enter a node through its namespaces instead of ssh, because a fault may break ssh.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from lab_nodes import Node, list_lab_nodes, run_fullmesh, run_shell

from devtools.lab import lifecycle, paths
from devtools.lab.state import Store
from fullmesh.diagnose.run import list_boot_codes
from fullmesh.play.names import make_run_name
from fullmesh.settings import ROOT
from fullmesh.verbs import diagnose as diagnose_cli

WORK = ROOT / ".fullmesh/faults"
DIAGNOSE_SECONDS = 90
DATA_RANGE = (50000, 54095)  # the default of fullmesh_data_ports
KERNEL_RANGE = (32768, 60999)  # the kernel's default range of ports


@dataclass
class Diagnosis:
    """The output of one diagnosis."""

    result: dict[str, Any]
    code: int
    seconds: float
    output: str = ""
    usual: frozenset[str] = frozenset()

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Return the primary findings, without their consequences.

        Changes at the next boot are separate, because the diagnosis rightly reports a fault of the
        running kernel there as well.
        """
        found: list[dict[str, Any]] = self.result["findings"]
        return [one for one in found if one["code"] not in list_boot_codes()]

    @property
    def at_boot(self) -> list[dict[str, Any]]:
        """Return the findings about the next boot, except those that the lab always has."""
        found: list[dict[str, Any]] = self.result["findings"]
        return [one for one in found if one["code"] in list_boot_codes() - self.usual]

    @property
    def codes(self) -> list[str]:
        """Return the codes of the primary findings."""
        return [str(finding["code"]) for finding in self.findings]

    def describe_findings(self) -> str:
        """Return everything that helps to understand an unexpected result."""
        rows = [
            {key: value for key, value in finding.items() if value and key != "page"}
            for finding in [*self.findings, *self.at_boot]
        ]
        return json.dumps(rows, indent=1) + "\n" + "\n".join(self.list_mixed_links())

    def list_mixed_links(self) -> list[str]:
        """List links whose ports had different results: a word for each port, with the stage that this end reached."""
        return [
            f"{link['from']} -> {link['to']}: "
            + ", ".join(
                f"{one['port']} {one['verdict']} ({one.get('reached')})" for one in link["ports"]
            )
            for link in self.result["links"]
            if len({one["verdict"] == "open" for one in link.get("ports", [])}) > 1
        ]


@dataclass
class Bench:
    """A running lab.

    Attributes:
        name: of the lab.
        nodes: by name, the master first.
        inventory: a folder. ``chosen`` makes smaller ones.
        ports: first and last port of the jobs' range.
        index: the lab's number.
        repairs: the number of faults fixed on it.
        bridge: this machine's bridge of the cluster network.
        usual: codes about the next boot that it always has.
    """

    name: str
    nodes: dict[str, Node]
    inventory: Path
    ports: tuple[int, int]
    index: int
    bridge: str
    runs: Path = field(init=False)
    repairs: int = 0
    usual: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.runs = WORK / "runs" / self.name

    def on(self, node: str, script: str, *, check: bool = True) -> str:
        """Run a shell script as root on a node. Return its standard output."""
        return self.nodes[node].on(script, check=check)

    def run_outside(self, script: str, *, check: bool = True) -> str:
        """Run a shell script on this machine, outside the nodes."""
        return run_shell(["env"], script, check=check, where="outside")

    @property
    def nft(self) -> str:
        """Return a command that runs a node's nft in this machine's network, which may have none."""
        first = next(iter(self.nodes.values()))
        return f"nsenter -t {first.pid} -m -- nft"

    def write_inventory(
        self, names: Sequence[str], variables: Mapping[str, Mapping[str, Any]] | None = None
    ) -> Path:
        """Write an inventory of some nodes, with some variables changed."""
        folder = WORK / "inventories" / f"{self.name}-{os.getpid()}-{time.monotonic_ns()}"
        shutil.copytree(self.inventory, folder, symlinks=True)
        data = yaml.safe_load((folder / "hosts.yml").read_text())
        hosts = data["all"]["children"]["torch_nodes"]["hosts"]
        changed = variables or {}
        data["all"]["children"]["torch_nodes"]["hosts"] = {
            name: {**hosts[name], **changed.get(name, {})} for name in names
        }
        (folder / "hosts.yml").write_text(yaml.safe_dump(data))
        return folder

    def diagnose(
        self,
        *options: str,
        inventory: Path | None = None,
        deadline: float = diagnose_cli.DEADLINE,
        more: Sequence[str] = (),
    ) -> Diagnosis:
        """Run the command behind ``./fullmesh diagnose``, with a result folder of its own."""
        run = make_run_name()
        args = Namespace(
            inventory=str(inventory or self.inventory),
            deadline=deadline,
            bandwidth="--bandwidth" in options,
            no_job="--no-job" in options,
            more=["-e", f"diagnose_runs_dir={self.runs}", *more],
        )
        begun = time.monotonic()
        done = subprocess.run(
            diagnose_cli.build_diagnose_command(args, run),
            cwd=ROOT,
            start_new_session=True,  # like a user's call, it gets its own share of the CPUs
            env=diagnose_cli.build_diagnose_env(deadline),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=DIAGNOSE_SECONDS,
        )
        took = time.monotonic() - begun
        path = self.runs / run / "result.json"
        assert path.is_file(), f"no result: {done.stdout[-4000:]}"
        result = json.loads(path.read_text())
        return Diagnosis(result, int(result["exit_code"]), took, done.stdout, self.usual)


def start_bench(name: str, count: int, ports: tuple[int, int]) -> Bench:
    """Start a lab."""
    up = run_fullmesh("lab", "up", "--name", name, "--nodes", str(count))
    assert up.returncode == 0, up.stdout + up.stderr
    nodes = list_lab_nodes(name)
    place = paths.find()
    lab = lifecycle.require(Store(place, name))
    inventory = lifecycle.inventory_path(place, name).parent
    return Bench(name, nodes, inventory, ports, lab.index, lab.bridges[1])
