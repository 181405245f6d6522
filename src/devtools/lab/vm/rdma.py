"""Small machines with soft-RoCE (rdma_rxe): their whole system is in memory, and each has two rails.

The first NIC is in QEMU's user network, which has no route out. A forwarded port of 127.0.0.1 leads to it. The second
NIC is the cluster network, and the others are the rails with ``rxe1`` and ``rxe2``. With two machines, each network is
a pair of unix sockets between the QEMUs. With more, it is a switch in this process. Nothing leaves this machine.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from devtools.lab import digest, host, sources_list
from devtools.lab.build import LOCK_SECONDS, STAGE_SECONDS
from devtools.lab.console import last_lines, say, step
from devtools.lab.errors import StepError
from devtools.lab.host import os_release
from devtools.lab.locks import held
from devtools.lab.paths import Paths
from devtools.lab.vm.build import require_x86
from devtools.lab.vm.machine import free_port
from devtools.lab.vm.plan import CPU, SSH, TRANSLATIONS_MIB
from devtools.lab.vm.store import make_key, must

PACKAGES = {
    "qemu-system-x86": "qemu-system-x86_64",
    "mmdebstrap": "mmdebstrap",
    "cpio": "cpio",
    "openssh-client": "ssh",
}
MEMORY_MIB = 768
BOOT_SECONDS = 300.0
COMMAND_SECONDS = 120.0
CABLES = (0, 1, 2)  # 0: the cluster network
PAIR = 2  # machines that need no switch
FRAME_MOST = 1 << 16
FULL_SECONDS = 1.0  # a machine that does not read for so long loses the frame


def build_image(paths: Paths) -> Path:
    """Return the folder with the machines' kernel and root, which is built if it is missing."""
    require_x86(platform.machine())
    host.ensure_packages(paths, PACKAGES)
    recipe = paths.sources / "vm" / "rdma"
    stage = f"vm-rdma-{digest.stage(paths.sources, [recipe])}"
    target = paths.cache / stage
    with held(paths.home / "locks" / "build-rdma", "the build of soft-RoCE", LOCK_SECONDS):
        if target.is_dir():
            return target
        for old in paths.cache.glob("vm-rdma-*"):
            shutil.rmtree(old)
        work = paths.cache / f"vm-rdma-{os.getpid()}.work"
        work.mkdir(parents=True)
        codename = os_release(Path("/etc/os-release").read_text()).get("VERSION_CODENAME", "")
        sources = sources_list.read(Path("/etc/apt"), codename)
        (work / "sources.list").write_text("\n".join(sources) + "\n")
        argv = ["sh", str(recipe / "build.sh"), codename, str(work / "sources.list"), str(work)]
        step("machines with soft-RoCE", argv, paths.logs / "vm-rdma.log", STAGE_SECONDS)
        os.replace(work, target)
    return target


class RailSwitch:
    """A switch for all networks of the machines: it learns addresses and forwards Ethernet frames."""

    def __init__(self, folder: Path, count: int) -> None:
        """Open a port for each cable of each machine, and start to forward."""
        self.folder = folder
        self.ports = {
            (n, cable): self.open_port(n, cable) for n in range(count) for cable in CABLES
        }
        self.network = {port: port[1] for port in self.ports}  # the port's VLAN
        self.known: dict[tuple[int, bytes], tuple[int, int]] = {}
        for port in self.ports:
            threading.Thread(target=self.forward_frames, args=(port,), daemon=True).start()

    def open_port(self, number: int, cable: int) -> socket.socket:
        """Open the socket of a port."""
        path = get_switch_path(self.folder, number, cable)
        path.unlink(missing_ok=True)
        port = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        port.bind(str(path))
        return port

    def forward_frames(self, port: tuple[int, int]) -> None:
        """Forward what a machine sends on a cable."""
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sender.settimeout(FULL_SECONDS)
        while True:
            frame = self.ports[port].recv(FRAME_MOST)
            network, to, source = self.network[port], frame[:6], frame[6:12]
            self.known[network, source] = port
            known = self.known.get((network, to))
            for other in [known] if known else self.ports:
                if other != port and self.network[other] == network:
                    try:
                        sender.sendto(frame, str(get_cable_path(self.folder, *other)))
                    except OSError:
                        continue  # the machine does not run yet, or does not read

    def swap_cables(self, number: int, first: int, second: int) -> None:
        """Swap two cables of a machine at the switch."""
        one, other = (number, first), (number, second)
        self.network[one], self.network[other] = self.network[other], self.network[one]
        self.known.clear()


def get_cable_path(folder: Path, number: int, cable: int) -> Path:
    """Return the socket of a machine's NIC."""
    return folder / f"rail{cable}-{number}"


def get_switch_path(folder: Path, number: int, cable: int) -> Path:
    """Return the socket of a switch's port."""
    return folder / f"port{cable}-{number}"


@dataclass(frozen=True)
class RdmaMachine:
    """One machine.

    Attributes:
        number: from 0.
        count: of all machines.
        port: of 127.0.0.1, which leads to its sshd.
        folder: with the files of all machines.
    """

    number: int
    count: int
    port: int
    folder: Path

    @property
    def name(self) -> str:
        """The host name."""
        return f"rdma{self.number + 1}"

    @property
    def address(self) -> str:
        """The address of the first NIC."""
        return f"10.79.{self.number}.15"

    def rail_address(self, rail: int) -> str:
        """Return the address on a rail, or with 0 on the cluster network."""
        return f"10.8{rail}.0.{11 + self.number}"

    def build_command(self, image: Path) -> list[str]:
        """Return the argv that starts the machine, detached."""
        key = (self.folder / "key.pub").read_text().split()[1]
        append = (
            f"console=ttyS0 quiet net.ifnames=0 mitigations=off machine={self.number} key={key}"
        )
        argv = ["qemu-system-x86_64", "-name", self.name, "-machine", "q35", "-cpu", CPU]
        argv += ["-accel", f"tcg,tb-size={TRANSLATIONS_MIB}", "-smp", "1", "-m", str(MEMORY_MIB)]
        argv += ["-display", "none", "-no-user-config", "-nodefaults", "-device", "virtio-rng-pci"]
        argv += ["-kernel", str(image / "vmlinuz"), "-initrd", str(image / "initrd.img")]
        argv += ["-append", append]
        net = f"10.79.{self.number}"
        forward = f"hostfwd=tcp:127.0.0.1:{self.port}-{self.address}:{SSH}"
        argv += ["-netdev", f"user,id=n0,restrict=on,net={net}.0/24,host={net}.2,{forward}"]
        argv += ["-device", f"virtio-net-pci,netdev=n0,mac=52:54:00:79:00:0{self.number}"]
        for rail in CABLES:
            own = get_cable_path(self.folder, self.number, rail)
            if self.count == PAIR:
                other = get_cable_path(self.folder, 1 - self.number, rail)
            else:
                other = get_switch_path(self.folder, self.number, rail)
            own.unlink(missing_ok=True)
            sockets = f"local.type=unix,local.path={own},remote.type=unix,remote.path={other}"
            argv += ["-netdev", f"dgram,id=c{rail},{sockets}"]
            mac = f"52:54:00:8{rail}:00:0{self.number}"
            argv += ["-device", f"virtio-net-pci,netdev=c{rail},mac={mac},host_mtu=9000"]
        argv += ["-serial", f"file:{self.folder / self.name}.console"]
        return [*argv, "-daemonize", "-pidfile", str(self.folder / f"{self.name}.pid")]

    def build_ssh(self, command: str) -> list[str]:
        """Return the argv of a shell command on the machine, as root."""
        return ["ssh", "-F", str(self.folder / "ssh_config"), self.address, command]

    def run_command(self, command: str, stdin: bytes = b"", check: bool = True) -> str:
        """Run a shell command as root, and return its output.

        Raises:
            StepError: it fails.
        """
        done = subprocess.run(
            self.build_ssh(command),
            input=stdin,
            capture_output=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        if check and done.returncode:
            raise StepError(f"{self.name}: {command}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode(errors="replace").strip()

    def wait_for_ssh(self) -> None:
        """Wait until ssh answers.

        Raises:
            StepError: it does not, with the last lines of the console.
        """
        ends = time.monotonic() + BOOT_SECONDS
        while self.run_command("echo ready", check=False) != "ready":
            if time.monotonic() > ends:
                words = last_lines(self.folder / f"{self.name}.console")
                raise StepError("\n".join([f"{self.name} does not boot", *words]))
            time.sleep(1)

    def stop_machine(self) -> None:
        """End the machine."""
        file = self.folder / f"{self.name}.pid"
        if file.exists() and must(["ps", "-o", "args=", "-p", file.read_text().strip()]):
            os.kill(int(file.read_text()), signal.SIGTERM)


def format_ssh_config(machines: list[RdmaMachine], folder: Path) -> str:
    """Return ssh's configuration. The host keys are part of the image, so they prove nothing."""
    lines = []
    for machine in machines:
        lines += [f"Host {machine.address}", "  HostName 127.0.0.1", f"  Port {machine.port}"]
    lines += ["Host *", "  User root", f"  IdentityFile {folder / 'key'}", "  LogLevel ERROR"]
    lines += ["  ConnectTimeout 60", "  UserKnownHostsFile /dev/null", "  StrictHostKeyChecking no"]
    return "\n".join(lines) + "\n"


def start_machines(paths: Paths, folder: Path, count: int = PAIR) -> list[RdmaMachine]:
    """Start machines whose files are in *folder*, and wait until ssh answers. Three need a `RailSwitch`."""
    image = build_image(paths)
    begun = time.monotonic()
    make_key(folder / "key")
    machines = [RdmaMachine(number, count, free_port(), folder) for number in range(count)]
    (folder / "ssh_config").write_text(format_ssh_config(machines, folder))
    for machine in machines:
        must(machine.build_command(image))
    for machine in machines:
        machine.wait_for_ssh()
    say(f"{count} machines with soft-RoCE are up after {time.monotonic() - begun:.1f} s")
    return machines
