"""Fixtures of the tests on virtual machines: the machines, playbooks against them, the state of /etc."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from plays import Done, run

from devtools.lab.errors import StepError
from devtools.lab.paths import find
from devtools.lab.vm import lifecycle, plan
from devtools.lab.vm.machine import Vm
from devtools.lab.vm.store import VmStore, names
from fullmesh.settings import ROOT

T = TypeVar("T")
NAME = "e2e-vm"
HERE = Path(__file__).parent
# The system itself rewrites these: the resolver's link, caches, the clock's offset, and accounts of
# packages.
NOT_COMPARED = (
    "*.cache",
    "resolv.conf",
    "adjtime",
    ".updated",
    "passwd*",
    "group*",
    "shadow*",
    "gshadow*",
)
LEAVE_OUT = " ".join(f"! -name '{name}'" for name in NOT_COMPARED)
# path, kind, mode, owner, time, target of a link, SELinux label; then the bytes
ETC = (
    f"cd /etc && find . -xdev {LEAVE_OUT} \\( -type f -o -type l \\) -printf '%p %y %m %U:%G %T@ %l %Z\\n' | sort; "
    f"find . -xdev {LEAVE_OUT} -type f -print0 | sort -z | xargs -0 sha256sum; find . -xdev -type d | sort"
)


class Machines:
    """The machines of this test run, by name."""

    def __init__(self, vms: list[Vm]) -> None:
        """Take the machines that are up."""
        self.vms = {vm.machine.name: vm for vm in vms}
        self.inventory = vms[0].store.inventory.parent
        # the current address of each machine, which static_ip changes
        self.at = {vm.machine.name: vm.machine.dhcp_address for vm in vms}

    def on(self, name: str, command: str) -> str:
        """Run a shell command as root and return what it prints."""
        return self.vms[name].ssh(command, self.at[name])

    def each(self, ask: Callable[[str], T]) -> dict[str, T]:
        """Call a function for every machine, in parallel. Each has its own CPU."""
        with ThreadPoolExecutor(len(self.vms)) as pool:
            return dict(zip(self.vms, pool.map(ask, self.vms), strict=True))

    def all(self, command: str) -> dict[str, str]:
        """Run a shell command on every machine."""
        return self.each(lambda name: self.on(name, command))

    def reachable(self, name: str) -> bool:
        """Say whether a fresh connection gets through within 40 s."""
        done = self.vms[name].try_ssh("true", self.at[name], timeout=40)
        return done.returncode == 0

    def wait_cut_off(self, name: str, seconds: float = 180) -> None:
        """Wait until no new connection gets through. The node applies a change after its controller is gone."""
        begun = time.monotonic()
        while self.reachable(name):
            assert time.monotonic() - begun < seconds, f"{name} still answers"

    def boots(self) -> dict[str, str]:
        """Return the id of each machine's boot."""
        return self.all("cat /proc/sys/kernel/random/boot_id")

    def wait(self, before: dict[str, str], seconds: float = 900) -> None:
        """Wait until every machine has booted again and answers."""
        begun = time.monotonic()
        for name, vm in self.vms.items():
            vm.wait(before[name], seconds - (time.monotonic() - begun))

    def until(self, command: str, wanted: str, seconds: float = 300) -> None:
        """Wait until a command prints the same on every machine. ssh answers before the last services are up."""

        def wait(name: str) -> None:
            end = time.monotonic() + seconds
            while True:
                done = self.vms[name].try_ssh(command, self.at[name])
                if done.returncode == 0 and done.stdout.strip() == wanted:
                    return
                assert time.monotonic() < end, f"{name}: {command}: {done.stdout} {done.stderr}"
                time.sleep(1)

        self.each(wait)

    def power_cycle(self) -> None:
        """Shut the machines down cleanly, start them again, and wait until all answer."""
        for vm in self.vms.values():
            vm.power_button()
        for vm in self.vms.values():
            vm.wait_off()
        lifecycle.up(find(), NAME)

    def etc(self, times: bool = True) -> dict[str, list[str]]:
        """Describe every file under /etc on each machine. Use *times* unless another program restored the files."""
        lines = {name: text.splitlines() for name, text in self.all(ETC).items()}
        if times:
            return lines
        return {
            name: [re.sub(r" \d+\.\d{10} ", " ", line) for line in found]
            for name, found in lines.items()
        }


def run_playbook(book: str, inventory: Path, *more: str, **variables: Any) -> Done:
    """Run a playbook, and print its output into the test's log."""
    given = ["-e", json.dumps(variables)] if variables else []
    env = dict(os.environ, ANSIBLE_LIBRARY=f"{ROOT}/library:{HERE}/library")
    argv = ("ansible-playbook", book, "-i", str(inventory), *more, *given)
    return run(*argv, seconds=2400, env=env)


@pytest.fixture(scope="session")
def machines() -> Iterator[Machines]:
    """Make an EL-like and an Ubuntu-like machine, in the state after an installer."""
    paths = find()
    if NAME in names(paths):
        lifecycle.down(paths, NAME)
    try:
        # a single machine halves the time while you write a test
        families = plan.check_families(os.environ.get("FULLMESH_VM_FAMILIES", "el,ubuntu"))
        yield Machines(lifecycle.up(paths, NAME, families))
    finally:
        if "FULLMESH_KEEP" not in os.environ:
            for vm in (Vm(VmStore(paths, NAME), one) for one in VmStore(paths, NAME).load()):
                sys.stdout.write(f"{vm.machine.name}'s console:\n{vm.words()}\n")
            lifecycle.down(paths, NAME)


@pytest.fixture(autouse=True)
def _duration(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Print the duration of each test. Emulation is slow, and authors of tests need to know."""
    begun = time.monotonic()
    yield
    with capsys.disabled():
        print(f" {time.monotonic() - begun:.0f} s", end="", flush=True)  # noqa: T201 (on pytest's own line)


__all__ = ["HERE", "NAME", "Done", "Machines", "StepError", "run_playbook"]
