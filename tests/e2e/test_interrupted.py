"""Interrupt a run in each phase, then run the same command again, which needs no hint.

Each case undoes one role, interrupts a run while that role works, and runs the same command again.
It must end with a verified cluster. The lab and the environment with torch are made once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

import power
import pytest
from lab_nodes import LAB_FAMILIES, name_lab
from plays import Done, read_output, run

from devtools.lab import plan
from devtools.lab.paths import find
from devtools.lab.podman import Podman
from fullmesh.settings import ROOT

LAB = name_lab("e2e-interrupted")
INVENTORY = find().lab(LAB) / "inventory"
NODES = tuple(node.name for node in plan.nodes(LAB, 1, LAB_FAMILIES, 2, ipv6=False))
# short deadlines shorten the wait for a revert; on a slow machine, the node may revert before the
# next run
SHORT = ("-e", "static_ip_rollback_seconds=25", "-e", "peer_firewall_rollback_seconds=25")


@dataclass(frozen=True)
class Phase:
    """The place of an interruption.

    Attributes:
        role: undone before the run, so that it has work, "" for none.
        task: a pattern of the task during which the run is interrupted.
        full: node -> the folder whose file system is full during the run.
    """

    role: str
    task: str
    full: dict[str, str] = field(default_factory=dict)


STATE = dict.fromkeys(NODES, "/var/lib/fullmesh")
PHASES = {
    "network": Phase("static_ip", r"static_ip : confirm \| Open a new", STATE),
    "names": Phase("name_resolution", r"name_resolution : ", STATE),
    "firewall": Phase(
        "peer_firewall", r"peer_firewall : confirm \| ", dict.fromkeys(NODES, "/etc/firewalld")
    ),
    "tuning": Phase("kernel_tuning", r"kernel_tuning : ", dict.fromkeys(NODES, "/etc/sysctl.d")),
    "packages": Phase(
        "torch_runtime",
        r"torch_runtime : .*[Bb]uild the env",
        dict.fromkeys(NODES, "/opt/fullmesh"),
    ),
    "launch": Phase("launchers", r"launchers : ", dict.fromkeys(NODES, "/opt/fullmesh")),
    "manifest": Phase("cluster_env", r"Save the node's manifest", STATE),
    "verify": Phase("", r"verify_cluster : .*", dict.fromkeys(NODES, "/tmp")),  # noqa: S108 (a node's folder)
}


class Session:
    """``./fullmesh apply`` in its own terminal, as a user runs it."""

    def __init__(self, *more: str) -> None:
        self.begun = time.time()
        self.master, slave = pty.openpty()
        self.output = b""
        self.process = subprocess.Popen(
            build_command(*more),
            cwd=ROOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 (only one thread so far)
        )
        os.close(slave)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while new := os.read(self.master, 65536):
                self.output += new

    def log(self) -> str:
        """Return Ansible's output so far."""
        logs = [
            path for path in ROOT.glob("runs/*/ansible.log") if path.stat().st_mtime > self.begun
        ]
        return max(logs, key=lambda path: path.stat().st_mtime).read_text() if logs else ""

    def wait_for_task(self, pattern: str, seconds: float = 300) -> None:
        """Wait until a task has begun."""
        end = time.monotonic() + seconds
        while not re.search(rf"^TASK \[{pattern}", self.log(), re.MULTILINE):
            assert self.process.poll() is None, self.output[-3000:].decode("utf-8", "replace")
            assert time.monotonic() < end, self.log()[-3000:]
            time.sleep(0.05)

    def close_terminal(self) -> None:
        os.close(self.master)

    def press_ctrl_c(self) -> None:
        os.write(self.master, b"\x03")

    def kill_controller(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)

    def restart_node(self) -> None:
        power.reboot_node(Podman(find()), f"fm-{LAB}-{NODES[0]}")


KINDS: dict[str, Callable[[Session], None]] = {
    "closed terminal": Session.close_terminal,
    "Ctrl-C": Session.press_ctrl_c,
    "killed controller": Session.kill_controller,
    "restarted node": Session.restart_node,
}


def build_command(*more: str) -> list[str]:
    return ["./fullmesh", "apply", "-i", str(INVENTORY), *more]


def run_on_node(node: str, script: str) -> str:
    return read_output("./fullmesh", "lab", "exec", "--name", LAB, node, "--", "sh", "-ec", script)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Make a lab that is configured once."""
    run("./fullmesh", "lab", "down", "--name", LAB)
    assert run("./fullmesh", "lab", "up", "--name", LAB).code == 0
    assert run(*build_command()).code == 0
    yield
    run("./fullmesh", "lab", "down", "--name", LAB)


def undo_role(role: str) -> None:
    """Undo one role, so that the next run has work in its phase."""
    done = run("ansible-playbook", "playbooks/undo.yml", "-i", str(INVENTORY), "--tags", role)
    assert done.code == 0


def run_again(*more: str) -> Done:
    """Run the same command again without options. The cluster must be verified, whatever the run waited for."""
    done = run(*build_command(*more))
    assert done.code == 0, done.output[-4000:]
    return done


def list_run_processes() -> str:
    done = subprocess.run(
        ["pgrep", "-af", f"ansible-playbook.*{INVENTORY}"],
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout


def is_chosen(kind: str, phase: str) -> bool:
    """Return whether the default run has a case: one that leaves a pending change."""
    return (kind, phase) == ("closed terminal", "firewall")


CASES = [
    pytest.param(kind, phase, marks=[] if is_chosen(kind, phase) else pytest.mark.rest)
    for kind, phase in product(KINDS, PHASES)
]


@pytest.mark.parametrize(("kind", "phase"), CASES)
def test_the_next_run_after_an_interruption_is_green(cluster: None, kind: str, phase: str) -> None:
    del cluster
    if PHASES[phase].role:
        undo_role(PHASES[phase].role)
    more = () if is_chosen(kind, phase) else SHORT
    session = Session("-e", "fullmesh_converge=always", *more)
    session.wait_for_task(PHASES[phase].task)
    if not is_chosen(kind, phase):  # there the pending change would already be confirmed
        time.sleep(0.5)
    KINDS[kind](session)
    session.process.wait(300)
    if kind in ("closed terminal", "Ctrl-C"):
        assert list_run_processes() == ""
    done = run_again(*more)
    if is_chosen(kind, phase):
        assert "has not confirmed it" in done.whole()


@contextlib.contextmanager
def fill_file_systems(folders: dict[str, str]) -> Iterator[None]:
    """Mount a small full file system at each folder, with the folder's content."""
    for node, folder in folders.items():
        run_on_node(
            node,
            f"mkdir -p {folder} /run/kept && cp -a {folder}/. /run/kept/ 2> /dev/null || :\n"
            f"size=$(du -sk /run/kept | cut -f1)\n"
            f"mount -t tmpfs -o size=$((size + 256))k none {folder}\n"
            f"cp -a /run/kept/. {folder}/\n"
            f"dd if=/dev/zero of={folder}/.filler bs=4k 2> /dev/null || :",
        )
    try:
        yield
    finally:
        for node, folder in folders.items():
            run_on_node(node, f"umount -l {folder}; rm -fr /run/kept")


@pytest.mark.rest
@pytest.mark.parametrize("phase", [name for name, phase in PHASES.items() if phase.role])
def test_the_next_run_after_a_full_file_system_is_green(cluster: None, phase: str) -> None:
    del cluster
    undo_role(PHASES[phase].role)
    with fill_file_systems(PHASES[phase].full):
        done = run(*build_command())
    assert done.code != 0
    assert re.search(r"No space left|ENOSPC|more space|room", done.whole())
    run_again()
