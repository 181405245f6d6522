"""The files of a set of machines: vm.json, key, known_hosts, ssh_config, inventory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from devtools.lab import host
from devtools.lab.errors import LabError, StepError
from devtools.lab.inventory import known_hosts_line
from devtools.lab.paths import Paths
from devtools.lab.vm import plan
from devtools.lab.vm.plan import Machine


def names(paths: Paths) -> list[str]:
    """Return the names of the recorded sets of machines."""
    return sorted(file.parent.name for file in (paths.home / "vms").glob("*/vm.json"))


class VmStore:
    """The folder of one set of machines."""

    def __init__(self, paths: Paths, name: str) -> None:
        """Read nothing yet."""
        self.paths, self.name = paths, name
        self.folder = paths.home / "vms" / name
        self.run = paths.run / f"vm-{name}"
        self.key = self.folder / "id_ed25519"
        self.known_hosts = self.folder / "known_hosts"
        self.config = self.folder / "ssh_config"
        self.inventory = self.folder / "inventory" / "hosts.yml"

    def load(self) -> list[Machine]:
        """Return the recorded machines; LB-130 if no set has this name."""
        file = self.folder / "vm.json"
        if not file.is_file():
            raise LabError(
                "LB-130",
                f"no machines are called {self.name!r} (there: {', '.join(names(self.paths)) or 'none'})",
                f"Start them: fullmesh lab vm up --name {self.name}",
            )
        return [Machine(**entry) for entry in json.loads(file.read_text())["machines"]]

    def machine(self, name: str) -> Machine:
        """Return one machine; LB-106 if the set has none with this name."""
        machines = self.load()
        for machine in machines:
            if machine.name == name:
                return machine
        known = ", ".join(machine.name for machine in machines)
        raise LabError(
            "LB-106", f"{self.name!r} has no machine {name!r}", f"Its machines: {known}."
        )

    def save(self, machines: Sequence[Machine]) -> None:
        """Save the set, with a new key for the set and one host key for each machine."""
        for folder in (self.folder, self.run, self.inventory.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        make_key(self.key)
        lines = [self._seed(machine) for machine in machines]
        self.known_hosts.write_text("\n".join(lines) + "\n")
        self.config.write_text(plan.ssh_config(machines, self.key, self.known_hosts))
        self.inventory.write_text(plan.inventory(machines, self.config))
        group_vars = self.inventory.parent / "group_vars"
        group_vars.unlink(missing_ok=True)
        group_vars.symlink_to(self.paths.checkout / "inventory" / "lab" / "group_vars")
        recorded = [machine.as_dict() for machine in machines]
        (self.folder / "vm.json").write_text(json.dumps({"machines": recorded}, indent=2) + "\n")

    def _seed(self, machine: Machine) -> str:
        """Pack the machine's name and keys into its second disk; return its known_hosts line."""
        root = self.folder / f"{machine.name}.root"
        shutil.rmtree(root, ignore_errors=True)
        ssh, login = root / "etc/ssh", root / "root/.ssh"
        ssh.mkdir(parents=True)
        login.mkdir(parents=True)
        make_key(ssh / "ssh_host_ed25519_key")
        shutil.copy(self.key.with_suffix(".pub"), login / "authorized_keys")
        (root / "etc/hostname").write_text(machine.hostname + "\n")
        (root / "etc/hosts").write_text(hosts(machine))
        files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
        seed = self.folder / f"{machine.name}.seed"
        must(["tar", "-C", str(root), "--owner=0", "--group=0", "-cf", str(seed), *files])
        public = (ssh / "ssh_host_ed25519_key.pub").read_text()
        shutil.rmtree(root)
        return known_hosts_line(",".join([machine.name, *machine.ports]), public)


def hosts(machine: Machine) -> str:
    """Return /etc/hosts as the installer leaves it. Ubuntu's maps the host name to loopback, a trap on purpose."""
    own = f"127.0.1.1 {machine.hostname}\n" if machine.family == "ubuntu" else ""
    return f"127.0.0.1 localhost\n{own}::1 ip6-localhost ip6-loopback\n"


def make_key(path: Path) -> None:
    """Make a key pair without a passphrase, unless it exists."""
    if not path.exists():
        must(
            [
                "ssh-keygen",
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                "fullmesh-lab-vm",
                "-f",
                str(path),
            ]
        )


def must(argv: Sequence[str]) -> str:
    """Run a short command; StepError with its output if it fails."""
    done = host.capture(argv)
    if done.returncode:
        raise StepError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout
