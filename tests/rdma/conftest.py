"""Emulated machines with soft-RoCE on two rails, and tries between them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from devtools.lab.paths import find
from devtools.lab.vm.rdma import RailSwitch, RdmaMachine, start_machines
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.gpu.dg249_rdma_port_down import rule_rdma_ports
from fullmesh.causes.rdma.dg196_rdma_rule import rule_rdma_packets
from fullmesh.causes.relations import fold_cluster_findings
from fullmesh.diagnose import shape
from fullmesh.result.findings import Finding
from fullmesh.settings import ROOT
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.rdma_pairs import build_rdma_targets
from fullmesh.verify.rdma_tries import check_rdma

PROGRAM = "/opt/fullmesh-test"
PROGRAMS = "/opt/fullmesh-programs"  # the node programs, and the hook in a folder of its own
TOKEN = "0f" * 16


class RdmaAgent:
    """The process on a machine that surveys it and tries pairs (agent.py)."""

    def __init__(self, machine: RdmaMachine) -> None:
        """Copy the node's code, and start the process."""
        source = ["tar", "-C", str(ROOT / "module_utils"), "-chf", "-", "fullmesh"]
        packed = subprocess.run(source, capture_output=True, check=True).stdout
        machine.run_command(f"mkdir -p {PROGRAM} && tar -C {PROGRAM} -xf -", packed)
        programs = ["tar", "-C", str(ROOT / "node_programs"), "-chf", "-", "."]
        packed = subprocess.run(programs, capture_output=True, check=True).stdout
        hook = f"mkdir {PROGRAMS}/hook && cp {PROGRAMS}/fullmesh_hook.py {PROGRAMS}/hook/sitecustomize.py"
        machine.run_command(f"mkdir -p {PROGRAMS} && tar -C {PROGRAMS} -xf - && {hook}", packed)
        program = (Path(__file__).parent / "agent.py").read_bytes()
        machine.run_command(f"cat > {PROGRAM}/agent.py", program)
        command = f"cd / && exec python3 {PROGRAM}/agent.py {PROGRAM}"
        command += f" {machine.name} {machine.rail_address(0)} {TOKEN}"
        self.process = subprocess.Popen(
            machine.build_ssh(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.port = self.read()

    def read(self) -> Any:
        """Read the next answer."""
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def ask(self, **request: Any) -> Any:
        """Send a request and return the answer."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return self.read()


class RdmaLab:
    """The machines and the processes on them."""

    def __init__(self, machines: list[RdmaMachine]) -> None:
        """Start a process on each machine."""
        self.machines = {machine.name: machine for machine in machines}
        with ThreadPoolExecutor(len(machines)) as pool:
            self.agents = dict(zip(self.machines, pool.map(RdmaAgent, machines), strict=True))

    def run(self, *steps: tuple[int, str]) -> None:
        """Run commands on machines, which count from 1."""
        for number, command in steps:
            self.machines[f"rdma{number}"].run_command(command)

    def ask_all(self, requests: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Ask several machines at the same time."""
        with ThreadPoolExecutor(len(requests)) as pool:
            asked = {name: pool.submit(self.agents[name].ask, **r) for name, r in requests.items()}
            return {name: one.result() for name, one in asked.items()}

    def observe(
        self, environment: dict[str, str] | None = None, *, rate: bool = False
    ) -> ClusterEvidence:
        """Survey all machines, choose the pairs as `diagnose` does, and try them at the same time.

        Args:
            environment: of jobs on all machines.
            rate: measure the rates too, one machine after the other.
        """
        plan: Any = {
            "nodes": {n: {"address": m.rail_address(0)} for n, m in self.machines.items()},
            "master": {"node": "rdma1"},
        }
        surveys = self.ask_all({name: {} for name in self.agents})
        for held in surveys.values():
            values = {key: {"value": v, "source": ""} for key, v in (environment or {}).items()}
            held["environment"] = {"values": values}
        opened: Any = {name: [{"port": a.port, "error": ""}] for name, a in self.agents.items()}
        targets = build_rdma_targets(plan, opened, surveys)
        tried = self.ask_all({name: {"targets": held} for name, held in targets.items()})
        if rate:
            for name, held in targets.items():
                ways = [one for one in held if not one["spare"]]
                tried[name]["rates"] = self.agents[name].ask(targets=ways, rate=True)
        nodes: Any = {}
        for name, held in surveys.items():
            addresses = {
                one.partition("/")[0]: nic["name"]
                for nic in held["interfaces"]
                for one in nic["addresses"]
            }
            facts = {"addresses": addresses, "survey": held}
            links = shape.sanitize_probe({"rdma": tried.get(name)}, set(plan["nodes"]))
            nodes[name] = {"node": {"facts": facts}, "links": links}
        return ClusterEvidence(ClusterObservations(plan, nodes), plan)

    def find(self, environment: dict[str, str] | None = None) -> list[Finding]:
        """Return the findings about RDMA, the first cause first."""
        evidence = self.observe(environment)
        rules = (check_rdma(evidence.seen), rule_rdma_packets(evidence), rule_rdma_ports(evidence))
        return fold_cluster_findings([finding for rule in rules for finding in rule])


def start_lab(folder: Path, count: int) -> Iterator[RdmaLab]:
    """Start machines, and stop them after the tests."""
    machines = start_machines(find(), folder, count)
    try:
        yield RdmaLab(machines)
    finally:
        for machine in machines:
            machine.stop_machine()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RdmaLab]:
    """Two machines, fresh, for all tests of a module."""
    yield from start_lab(Path(tmp_path_factory.mktemp("rdma")), 2)


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> RailSwitch:
    """The switch of three machines."""
    return RailSwitch(Path(tmp_path_factory.mktemp("rdma")), 3)


@pytest.fixture(scope="module")
def three(switch: RailSwitch) -> Iterator[RdmaLab]:
    """Three machines at the switch."""
    yield from start_lab(switch.folder, 3)
