"""Start and stop sets of machines."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence

from devtools.lab.console import say
from devtools.lab.errors import LabError
from devtools.lab.lifecycle import LOCK_SECONDS, open_podman
from devtools.lab.locks import held
from devtools.lab.paths import Paths
from devtools.lab.vm import plan
from devtools.lab.vm.build import VmBuilder
from devtools.lab.vm.machine import Vm, free_port, wait_all
from devtools.lab.vm.plan import Machine
from devtools.lab.vm.store import VmStore


def build(paths: Paths) -> VmBuilder:
    """Build the missing stages and return the builder, which knows their folders."""
    builder = VmBuilder(paths, open_podman(paths))
    builder.ensure_vm()
    return builder


def fresh(families: Sequence[str]) -> list[Machine]:
    """Return new machines, with ports of 127.0.0.1 that are free now."""
    return [
        Machine(
            name=f"{family}1",
            family=family,
            number=number,
            ports={address: free_port() for address in plan.first_card_addresses(number)},
        )
        for number, family in enumerate(families)
    ]


def up(paths: Paths, name: str, families: Sequence[str] | None = None) -> list[Vm]:
    """Start a set of machines, the recorded one if there is one, and wait until ssh answers.

    Raises:
        LabError: LB-114 if the recorded set has other families than *families*.
    """
    begun = time.monotonic()
    builder = build(paths)
    store = VmStore(paths, name)
    with held(paths.home / "locks" / f"vm-{name}", f"machines {name}", LOCK_SECONDS):
        if (store.folder / "vm.json").is_file():
            machines = store.load()
            there = [machine.family for machine in machines]
            if families is not None and list(families) != there:
                raise LabError(
                    "LB-114",
                    f"machines {name!r} are up with families {','.join(there)}",
                    f"Take them down first: fullmesh lab vm down --name {name}",
                )
            store.run.mkdir(parents=True, exist_ok=True)
        else:
            machines = fresh(families or plan.FAMILIES)
            store.save(machines)
        vms = [Vm(store, machine) for machine in machines]
        for vm in vms:
            vm.start(builder.folder(f"vm-{vm.machine.family}"), builder.repo_disk)
        wait_all(vms)
    say(
        f"machines {name} are up after {time.monotonic() - begun:.1f} s; inventory: {store.inventory}"
    )
    return vms


def down(paths: Paths, name: str) -> None:
    """End a set of machines and remove its files; the built disks stay."""
    store = VmStore(paths, name)
    with held(paths.home / "locks" / f"vm-{name}", f"machines {name}", LOCK_SECONDS):
        for machine in store.load():
            Vm(store, machine).stop()
        shutil.rmtree(store.folder)
        shutil.rmtree(store.run, ignore_errors=True)
    say(f"machines {name} are down")


def disks(builder: VmBuilder) -> list[str]:
    """Return the folders of the built disks."""
    return [str(builder.folder(f"vm-{family}")) for family in plan.FAMILIES]
