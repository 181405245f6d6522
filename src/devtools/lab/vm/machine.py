"""One running virtual machine: start, stop, reset, a command over ssh."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from devtools.lab import host
from devtools.lab.console import EVERY, last_lines, say
from devtools.lab.errors import StepError
from devtools.lab.vm import plan, qmp
from devtools.lab.vm.plan import Machine
from devtools.lab.vm.store import VmStore, must

# An emulated machine boots in 20 to 40 s on an idle core. Busy cores need more.
BOOT_SECONDS = 900.0
SSH_SECONDS = 120.0
STOP_SECONDS = 10.0
POLL_SECONDS = 1.0
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Vm:
    """A recorded machine and its process."""

    def __init__(self, store: VmStore, machine: Machine) -> None:
        """Start nothing."""
        self.store, self.machine = store, machine
        self.qmp = store.run / f"{machine.name}.qmp"
        self.pid_file = store.run / f"{machine.name}.pid"
        self.overlay = store.folder / f"{machine.name}.qcow2"
        self.console = store.folder / f"{machine.name}.console"

    def pid(self) -> int:
        """Return the process id of this machine's QEMU, 0 when it does not run."""
        try:
            number = int(self.pid_file.read_text())
            words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return 0
        # the process id may belong to another program by now
        return number if str(self.qmp).encode() in b" ".join(words) else 0

    def start(self, image: Path, repo: Path) -> None:
        """Start the machine on its overlay, which is created at the first start."""
        if self.pid():
            return
        if not self.overlay.exists():
            base = ["-b", str(image / "disk.img"), "-F", "raw"]
            must(["qemu-img", "create", "-q", "-f", "qcow2", *base, str(self.overlay)])
        folder, run = self.store.folder, self.store.run
        for stale in (self.qmp, run / f"net-{self.machine.number}"):
            stale.unlink(missing_ok=True)
        must(plan.command(self.machine, image, repo, folder, run))

    def stop(self) -> None:
        """End the machine's process, as if its power were cut."""
        number = self.pid()
        if not number:
            return
        os.kill(number, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while self.pid():
            if time.monotonic() > deadline:
                os.kill(number, signal.SIGKILL)
                break
            time.sleep(0.1)

    def reset(self) -> None:
        """Reset the machine at once, so nothing is written to its disk."""
        qmp.execute(self.qmp, "system_reset")

    def power_button(self) -> None:
        """Press the power button, so the system shuts down."""
        qmp.execute(self.qmp, "system_powerdown")

    def wait_off(self, seconds: float = BOOT_SECONDS) -> None:
        """Wait until it has shut down; StepError if it does not."""
        deadline = time.monotonic() + seconds
        while self.pid():
            if time.monotonic() > deadline:
                raise StepError(f"{self.machine.name} does not shut down\n{self.words()}")
            time.sleep(POLL_SECONDS)

    def ssh_argv(self, *command: str, address: str = "") -> list[str]:
        """Return the argv of a command on the machine, at its DHCP address or another one."""
        target = address or self.machine.dhcp_address
        options = ["-F", str(self.store.config), "-o", "ConnectTimeout=10", "-o", "LogLevel=ERROR"]
        return ["ssh", *options, "-o", "ControlPath=none", target, *command]

    def ssh(self, command: str, address: str = "", timeout: float = SSH_SECONDS) -> str:
        """Run a shell command on the machine and return its output; StepError if it fails."""
        done = self.try_ssh(command, address, timeout)
        if done.returncode:
            words = done.stderr.strip() or done.stdout.strip()
            raise StepError(f"{self.machine.name}: {command}: exit {done.returncode}: {words}")
        return done.stdout.strip()

    def try_ssh(
        self, command: str, address: str = "", timeout: float = SSH_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command on the machine; exit code 255 if it cannot be reached in time."""
        argv = self.ssh_argv(command, address=address)
        try:
            return host.capture(argv, timeout)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 255, "", f"no answer after {timeout:.0f} s")

    def boot_id(self) -> str:
        """Return the id of this boot; empty if no address answers.

        QEMU accepts connections to unused addresses and never answers them. So all addresses are queried at once, and
        the first answer counts.
        """
        pool = ThreadPoolExecutor(len(self.machine.ports))
        asked = [
            pool.submit(self.try_ssh, f"cat {BOOT_ID}", address, SSH_SECONDS / 3)
            for address in self.machine.ports
        ]
        try:
            said = (one.result() for one in as_completed(asked))
            return next((done.stdout.strip() for done in said if done.returncode == 0), "")
        finally:
            pool.shutdown(wait=False)

    def wait(self, before: str = "", seconds: float = BOOT_SECONDS) -> float:
        """Wait until ssh answers from a different boot than *before*; return the seconds it took.

        Raises:
            StepError: the process has ended or *seconds* are over; with the last lines of the console.
        """
        begun = said = time.monotonic()
        while True:
            found = self.boot_id()
            now = time.monotonic()
            if found and found != before:
                return now - begun
            if not self.pid() or now - begun > seconds:
                why = f"no ssh after {now - begun:.0f} s" if self.pid() else "QEMU has ended"
                raise StepError(
                    f"{self.machine.name}: {why}\n{self.words()}\n  console: {self.console}"
                )
            if now - said > EVERY:
                said = now
                say(f"{self.machine.name} boots: {now - begun:.0f} s")
            time.sleep(POLL_SECONDS)

    def words(self) -> str:
        """Return the last lines of the console."""
        return "\n".join(f"    {line}" for line in last_lines(self.console))


def wait_all(machines: Sequence[Vm], before: Sequence[str] = ()) -> float:
    """Wait for all machines, which boot at the same time; return the seconds of the slowest."""
    begun = time.monotonic()
    for vm, old in zip(machines, before or [""] * len(machines), strict=True):
        vm.wait(old)
    return time.monotonic() - begun
