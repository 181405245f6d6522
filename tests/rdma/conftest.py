"""Two emulated machines with soft-RoCE on two rails, and diagnoses of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devtools.lab.paths import find
from devtools.lab.vm.rdma import RdmaMachine, start_machines
from fullmesh.settings import ROOT

PROGRAM = "/opt/fullmesh-test"
DIAGNOSE_SECONDS = 300


class RdmaLab:
    """The machines, by number, and their inventory."""

    def __init__(self, machines: list[RdmaMachine]) -> None:
        """Copy the node's code to each machine."""
        self.machines = machines
        self.inventory = machines[0].folder / "hosts.yml"
        self.runs = machines[0].folder / "runs"
        source = ["tar", "-C", str(ROOT / "module_utils"), "-chf", "-", "fullmesh"]
        packed = subprocess.run(source, capture_output=True, check=True).stdout
        for machine in machines:
            machine.run(f"mkdir -p {PROGRAM} && tar -C {PROGRAM} -xf -", packed)

    def run(self, *steps: tuple[int, str]) -> None:
        """Run commands on machines 1 or 2."""
        for number, command in steps:
            self.machines[number - 1].run(command)

    def diagnose(self) -> dict[str, Any]:
        """Run ``fullmesh diagnose`` and return its result."""
        command = [
            sys.executable,
            "-m",
            "fullmesh",
            "diagnose",
            "--json",
            "-i",
            str(self.inventory),
        ]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=DIAGNOSE_SECONDS,
        )
        assert done.returncode in (0, 1), done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RdmaLab]:
    """Two machines, fresh, for all tests."""
    # the path of a unix socket has 107 bytes at most
    folder = Path(tmp_path_factory.mktemp("rdma"))
    machines = start_machines(find(), folder)
    try:
        yield RdmaLab(machines)
    finally:
        for machine in machines:
            machine.stop()
