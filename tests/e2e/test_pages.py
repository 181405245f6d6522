"""Type the commands of the pages in a copy of the checkout, on two bare lab nodes, in each page's order.

``page_commands.REPLACEMENTS`` has a reader's own words (the inventory, the nodes), ``NOT_RUN`` the commands
that can't run here with the reasons, and ``ENDS`` the exit codes other than 0. Every other command
must run and succeed.

Pages that lead from bare machines to a cluster and back run whole. The other pages run on
configured nodes. There, a command that already ran word for word is not repeated.
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
from page_commands import EITHER, ENDS, NOT_RUN, Shown, fill_in_words, map_runnable_commands
from plays import run

from devtools.lab.paths import find
from fullmesh.settings import ROOT

LAB = "e2e-pages"
SECONDS = 900
NODES = {"el1": ("box1", "gpu1"), "ubuntu1": ("box2", "gpu2")}
# Pages that lead from bare machines to a cluster and back.
WAYS = ("README.md", "docs/tutorials/first-hour.md", "docs/tutorials/two-machines.md")
# A recording breaks a link and repairs it, so all of its commands run, in the order of the page.
RECORDED = "docs/tutorials/broken-link.md"
# One of these pages restores a node, the other deletes the lab.
LAST = ("docs/operate.md", "docs/development/lab.md")
TO_RUN = map_runnable_commands()
ORDER = (
    *WAYS,
    RECORDED,
    *(page for page in TO_RUN if page not in {*WAYS, RECORDED, *LAST}),
    *LAST,
)
# The machines that the pages assume: an account that may use sudo, temporary addresses, a script.
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
    """A reader with a checkout and two machines who types the commands of the pages."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "fullmesh"
        self.config = folder / "ssh_config"
        self.labs = find().lab(LAB)
        self.ran: set[str] = set()  # as typed
        self.shown: set[str] = set()  # as the pages show them
        self.configured = False
        # user and inventory get the same ssh configuration, the only one that knows the nodes'
        # names
        self.ssh = f"-F {self.config}"
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")},
            "ANSIBLE_SSH_COMMON_ARGS": self.ssh,
            # ssh reuses a connection to the same name, which can be a node of another lab
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"),
            "FULLMESH_VENV": sys.prefix,
        }
        self.env.pop("PYTHONPATH", None)
        self.checkout()

    def checkout(self) -> None:
        """Copy the tree, with logs and records under the names that pages use."""
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
        (self.tree / "hostfile").write_text("".join(f"{name}\n" for name in NODES))
        (self.tree / "dumps").mkdir()
        for place in (self.tree, self.tree / "dumps"):
            for rank in (0, 1):
                shutil.copy(records / f"groups_crossed_{rank}", place)

    def type(self, command: str) -> subprocess.CompletedProcess[str]:
        """Type a command, and print its output into the test's log."""
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
        """Type a command that belongs to no page. It must succeed."""
        done = self.type(command)
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}"

    def machines(self) -> None:
        """Start the lab if it is down, and bring its nodes into the state that the pages assume."""
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
        """Return the command with this lab's own names."""
        runs = sorted((self.tree / "runs").glob("2*/result.json"))
        earlier = str(runs[0].parent.relative_to(self.tree)) if runs else "runs/none"
        own = {"LAB-INVENTORY": f"{self.labs}/inventory", "LAB": LAB, "NETWORK": self.network}
        if "NODE-" in command:
            # pages use different names for the two machines, and the last inventory that a page
            # wrote is there
            mine = yaml.safe_load((self.tree / "inventory/mine/hosts.yml").read_text())
            names = list(mine["torch_nodes"]["hosts"])
            own |= {"NODE-ONE": names[0], "NODE-TWO": names[1]}
        for word, mine in {**own, "EARLIER": earlier}.items():
            command = command.replace(word, mine)
        return command

    def before(self, command: str) -> None:
        """Prepare the state that a page assumes before this command."""
        if self.writes(command):
            # it never overwrites an inventory
            shutil.rmtree(self.tree / self.out(command), ignore_errors=True)
        if command.startswith("./fullmesh lab gpus"):
            self.machines()

    @staticmethod
    def out(command: str) -> str:
        """Return the inventory that a call of init writes."""
        return "inventory/rack" if "inventory/rack" in command else "inventory/mine"

    @staticmethod
    def writes(command: str) -> bool:
        """Return whether a call of init writes an inventory."""
        return command.startswith("./fullmesh init ") and "--help" not in command

    def after(self, command: str) -> None:
        """Add settings that the site needs to the inventory of init, and note whether the nodes are configured now."""
        if self.writes(command) and (self.tree / self.out(command)).is_dir():
            # the nodes are configured as an earlier inventory names them
            self.configured = self.configured and self.out(command) != "inventory/mine"
            settings = self.tree / self.out(command) / "group_vars/torch_nodes"
            shutil.copytree(self.tree / "inventory/lab/group_vars/all", settings)
            # the lab names its families in a way that these nodes do not
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
        """Type a command of a page. Return the difference from its expected end, or an empty string."""
        command = fill_in_words(one.command)
        self.shown.add(one.command)
        if command in self.ran and not again:
            return ""
        self.ran.add(command)
        self.before(command)
        done = self.type(self.words(command))
        self.after(command)
        other = ENDS.get(one.command)
        wanted = one.code if one.code is not None else other.code if other else 0
        if done.returncode == wanted or (one.command in EITHER and done.returncode in (0, 1)):
            return ""
        return f"{one.command}: exit {done.returncode}, not {wanted}:\n{done.stdout[-1500:]}"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Make a copy of the checkout and a lab of its own."""
    run("./fullmesh", "lab", "down", "--name", LAB)
    made = Reader(tmp_path_factory.mktemp("pages"))
    made.machines()
    yield made
    run("./fullmesh", "lab", "down", "--name", LAB)


@pytest.mark.lab
@pytest.mark.parametrize("page", ORDER)
def test_page_commands_end_as_the_page_says(reader: Reader, page: str) -> None:
    way = page in WAYS
    whole = way or page == RECORDED
    commands = [one for one in TO_RUN[page] if one.command not in NOT_RUN]
    new = [one for one in commands if whole or fill_in_words(one.command) not in reader.ran]
    if not way and not reader.configured and any("--help" not in one.command for one in new):
        reader.machines()
        reader.well("./fullmesh apply -i inventory/mine")
        reader.configured = True
    if way:
        reader.machines()
    # run all of them, so that one test shows every fault of a page
    wrong = [fault for one in commands if (fault := reader.follow(one, again=whole))]
    assert wrong == []


def test_every_page_command_ran_or_has_a_reason(reader: Reader) -> None:
    shown = {one.command for commands in TO_RUN.values() for one in commands}
    sys.stdout.write(
        f"\n{len(reader.shown)} of {len(shown)} commands were run, as {len(reader.ran)} different ones\n"
    )
    assert reader.shown == shown - set(NOT_RUN)
