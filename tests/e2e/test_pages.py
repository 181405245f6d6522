"""What the pages say to type is typed: in a copy of the checkout, on two bare lab nodes, in the order of each page.

A reader's own words (which inventory, which nodes) stand in ``page_commands.SAID``, what can't be run here in
``NOT_RUN`` with its reason, another end than 0 in ``ENDS``; every other command has to be run and to end well. Pages
that tell a way from bare machines and back are run whole. Of the others, each on nodes that are configured, a command
that ran before, word for word, is not run again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from page_commands import ENDS, NOT_RUN, Shown, as_run, to_run
from plays import run

from devtools.lab.paths import find
from fullmesh.settings import ROOT

LAB = "e2e-pages"
SECONDS = 900
NODES = {"el1": ("box1", "gpu1"), "ubuntu1": ("box2", "gpu2")}
# From bare machines and back, each whole.
WAYS = ("README.md", "docs/tutorials/first-hour.md", "docs/tutorials/two-machines.md")
# One gives a node back, one takes the lab away.
LAST = ("docs/operate.md", "docs/development/lab.md")
TO_RUN = to_run()
ORDER = (*WAYS, *(page for page in TO_RUN if page not in {*WAYS, *LAST}), *LAST)
# The machines as the pages take them: an account that may use sudo, addresses that the next boot forgets, a script.
READY = """
set -e
id admin >/dev/null 2>&1 || useradd --create-home --shell /bin/bash admin
echo 'admin ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/admin
install -d -m 700 -o admin -g admin /home/admin/.ssh
install -m 600 -o admin -g admin /root/.ssh/authorized_keys /home/admin/.ssh/authorized_keys
ip link set CARD up
ip address replace ADDRESS dev CARD
mkdir -p /srv/jobs
cat > /srv/jobs/train.py
cp /srv/jobs/train.py /root/train.py
cp /srv/jobs/train.py /home/admin/train.py
"""


class Reader:
    """Somebody with a checkout and two machines who types what the pages say."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "fullmesh"
        self.config = folder / "ssh_config"
        self.labs = find().lab(LAB)
        self.ran: set[str] = set()  # as they were typed
        self.shown: set[str] = set()  # as the pages show them
        self.configured = False
        # what it brings is for user and inventory alike: nothing here knows the nodes' names but ssh
        self.ssh = f"-F {self.config}"
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")},
            "ANSIBLE_SSH_COMMON_ARGS": self.ssh,
            "FULLMESH_VENV": sys.prefix,
        }
        self.env.pop("PYTHONPATH", None)
        self.checkout()

    def checkout(self) -> None:
        """The tree as it is, with logs and records by the names that pages give them."""
        listed = subprocess.run(
            ["git", "ls-files", "-coz", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for name in listed.strip("\0").split("\0"):
            there = self.tree / name
            there.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).exists():
                shutil.copy2(ROOT / name, there, follow_symlinks=False)
        subprocess.run(["git", "init", "-q", str(self.tree)], check=True)
        subprocess.run(["git", "add", "-A"], cwd=self.tree, check=True)
        logs, records = self.tree / "tests/unit/data/logs", self.tree / "tests/unit/recorded/hang"
        for place in (self.tree, self.tree / "logs"):
            place.mkdir(exist_ok=True)
            for rank in (0, 1):
                shutil.copy(logs / f"data-rejected/rank{rank}.log", place)
        (self.tree / "dumps").mkdir()
        for place in (self.tree, self.tree / "dumps"):
            for rank in (0, 1):
                shutil.copy(records / f"groups_crossed_{rank}", place)

    def type(self, command: str) -> subprocess.CompletedProcess[str]:
        """Type a command; what it prints stands in the test's log."""
        started = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.tree,
            env=self.env,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        took = time.monotonic() - started
        sys.stdout.write(
            f"\n$ {command}\n{done.stdout[-6000:]}\nexit {done.returncode}, {took:.1f} s\n"
        )
        return done

    def well(self, command: str) -> None:
        """Type what belongs to no page."""
        done = self.type(command)
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}"

    def machines(self) -> None:
        """Bring the lab up where it is not, and make its nodes what the pages take for granted."""
        self.well(f"./fullmesh lab up --name {LAB}")
        made = yaml.safe_load((self.labs / "inventory/hosts.yml").read_text())
        hosts = made["all"]["children"]["torch_nodes"]["hosts"]
        lines = []
        for name, others in NODES.items():
            one = hosts[name]
            lines.append(f"Host {' '.join((name, *others))}\n  HostName {one['ansible_host']}")
            ready = READY.replace("CARD", one["fullmesh_interface"])
            ready = ready.replace("ADDRESS", one["fullmesh_address"])
            inside = ["./fullmesh", "lab", "exec", "--name", LAB, name, "--", "sh", "-c", ready]
            with (self.tree / "examples/ddp.py").open() as script:
                subprocess.run(inside, cwd=self.tree, env=self.env, check=True, stdin=script)
        lines.append(f"Host *\n  IdentityFile {self.labs}/id_ed25519")
        lines.append(f"  UserKnownHostsFile {self.labs}/known_hosts")
        # without a user in the command or the inventory
        lines.append("  User root")
        self.config.write_text("\n".join(lines) + "\n")
        network = next(iter(hosts.values()))["fullmesh_address"].rpartition(".")[0]
        self.network = f"{network}.0/24"

    def words(self, command: str) -> str:
        """The command with this lab's own names."""
        runs = sorted((self.tree / "runs").glob("2*/result.json"))
        earlier = str(runs[0].parent.relative_to(self.tree)) if runs else "runs/none"
        own = {"LAB-INVENTORY": f"{self.labs}/inventory", "LAB": LAB, "NETWORK": self.network}
        if "NODE-" in command:
            # the pages name the two machines in their own ways, and the last inventory that one of them wrote is there
            mine = yaml.safe_load((self.tree / "inventory/mine/hosts.yml").read_text())
            names = list(mine["torch_nodes"]["hosts"])
            own |= {"NODE-ONE": names[0], "NODE-TWO": names[1]}
        for word, mine in {**own, "EARLIER": earlier}.items():
            command = command.replace(word, mine)
        return command

    def before(self, command: str) -> None:
        """What a page takes for granted where it shows this."""
        if self.writes(command):
            # it never writes over an inventory
            shutil.rmtree(self.tree / self.out(command), ignore_errors=True)
        if command.startswith("./fullmesh lab gpus"):
            self.machines()

    @staticmethod
    def out(command: str) -> str:
        """The inventory that a call of init writes."""
        return "inventory/rack" if "inventory/rack" in command else "inventory/mine"

    @staticmethod
    def writes(command: str) -> bool:
        """Whether it is a call of init that writes an inventory."""
        return command.startswith("./fullmesh init ") and "--help" not in command

    def after(self, command: str) -> None:
        """What the site needs beside what init writes; whether the nodes are configured now."""
        if self.writes(command) and (self.tree / self.out(command)).is_dir():
            settings = self.tree / self.out(command) / "group_vars/torch_nodes"
            shutil.copytree(self.tree / "inventory/lab/group_vars/all", settings)
            # the lab tells its families by names that these nodes do not have here
            for path in settings.glob("*.yml"):
                there = path.read_text().replace("is match('el')", f"in {['el1', *NODES['el1']]}")
                path.write_text(there)
        if "--help" in command:
            return
        if command.startswith(("./fullmesh apply", "./fullmesh demo", "ansible-playbook site")):
            self.configured = True
        if command.startswith(("./fullmesh undo --yes", "./fullmesh lab down")):
            self.configured = False

    def follow(self, one: Shown, *, again: bool) -> str:
        """Type a command of a page; what is wrong with its end, or nothing."""
        command = as_run(one.command)
        self.shown.add(one.command)
        if command in self.ran and not again:
            return ""
        self.ran.add(command)
        self.before(command)
        done = self.type(self.words(command))
        self.after(command)
        other = ENDS.get(one.command)
        wanted = one.code if one.code is not None else other.code if other else 0
        if done.returncode == wanted:
            return ""
        return f"{one.command}: exit {done.returncode}, not {wanted}:\n{done.stdout[-1500:]}"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A copy of the checkout and a lab of its own."""
    run("./fullmesh", "lab", "down", "--name", LAB)
    made = Reader(tmp_path_factory.mktemp("pages"))
    made.machines()
    yield made
    run("./fullmesh", "lab", "down", "--name", LAB)


@pytest.mark.lab
@pytest.mark.parametrize("page", ORDER)
def test_page_commands_end_as_the_page_says(reader: Reader, page: str) -> None:
    way = page in WAYS
    commands = [one for one in TO_RUN[page] if one.command not in NOT_RUN]
    new = [one for one in commands if way or as_run(one.command) not in reader.ran]
    if not way and not reader.configured and any("--help" not in one.command for one in new):
        reader.machines()
        reader.well("./fullmesh apply -i inventory/mine")
        reader.configured = True
    if way:
        reader.machines()
    # each of them, so that one run shows all that is wrong with a page
    wrong = [said for one in commands if (said := reader.follow(one, again=way))]
    assert wrong == []


def test_every_page_command_ran_or_has_a_reason(reader: Reader) -> None:
    shown = {one.command for commands in TO_RUN.values() for one in commands}
    sys.stdout.write(
        f"\n{len(reader.shown)} of {len(shown)} commands were run, as {len(reader.ran)} different ones\n"
    )
    assert reader.shown == shown - set(NOT_RUN)
