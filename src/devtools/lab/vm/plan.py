"""Plan the machines, their addresses and their QEMU commands. All functions are pure.

Nothing leaves this machine. The first interface is in QEMU's user network, which has a DHCP server and a gateway but no
route out (``restrict=on``). Forwarded ports of 127.0.0.1 lead to it. The second interface connects the two machines
through a pair of unix sockets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devtools.lab.errors import LabError
from devtools.lab.inventory import format_value, ssh_options

FAMILIES = ("el", "ubuntu")
DEFAULT_NAME = "vm"
MEMORY_MIB = 1024
PATIENCE = 900
# A boot takes 20 s of a core if an old CPU is emulated, and 33 s for the newest one (measured).
CPU = "Nehalem"
# QEMU's cache of translated code. By default it uses 1 GB for each machine.
TRANSLATIONS_MIB = 256
# Addresses of the first interface: the first one from DHCP, the second one for the change to a static address.
DHCP_HOST, STATIC_HOST = 15, 77
SSH = 22
# Only EL has SELinux. The look-alike of Ubuntu has no AppArmor profiles, so it runs without a security module.
SECURITY = {"el": "security=selinux selinux=1", "ubuntu": "selinux=0"}


@dataclass(frozen=True)
class Machine:
    """One virtual machine.

    Attributes:
        name: in the inventory.
        family: el or ubuntu.
        number: 0 or 1; the last part of its networks.
        ports: address of the first interface -> port of 127.0.0.1 that leads to its sshd.
    """

    name: str
    family: str
    number: int
    ports: Mapping[str, int]

    @property
    def hostname(self) -> str:
        """The machine's own name, which differs from the inventory's on purpose."""
        return f"gpu-{self.name}.lab.example" if self.family == "el" else f"gpu-{self.name}"

    @property
    def dhcp_address(self) -> str:
        """The address that QEMU's DHCP server gives the first interface."""
        return f"10.79.{self.number}.{DHCP_HOST}"

    @property
    def static_address(self) -> str:
        """The static address of the first interface, which has a forwarded port too."""
        return f"10.79.{self.number}.{STATIC_HOST}"

    @property
    def gateway(self) -> str:
        """QEMU's own address in the first interface's network; the controller's connections come from it."""
        return f"10.79.{self.number}.2"

    @property
    def gateway6(self) -> str:
        """QEMU's own IPv6 address."""
        return f"fd79:0:0:{self.number}::2"

    @property
    def cluster_address(self) -> str:
        """The planned address of the second interface."""
        return f"10.80.0.{11 + self.number}/24"

    def as_dict(self) -> dict[str, Any]:
        """Return the machine as plain data for vm.json."""
        return {**asdict(self), "ports": dict(self.ports)}


def first_card_addresses(number: int) -> list[str]:
    """Return the addresses that have a forwarded port."""
    return [f"10.79.{number}.{host}" for host in (DHCP_HOST, STATIC_HOST)]


def check_families(text: str) -> tuple[str, ...]:
    """Read ``el,ubuntu``; LB-113 if a family is unknown or occurs twice."""
    families = tuple(part.strip() for part in text.split(",") if part.strip())
    if not families or not set(families) <= set(FAMILIES) or len(set(families)) < len(families):
        raise LabError(
            "LB-113",
            f"--families {text!r} is not possible for virtual machines",
            f"Give each of {', '.join(FAMILIES)} at most once, separated by a comma.",
        )
    return families


def user_network(machine: Machine) -> str:
    """Return QEMU's option for the first interface's network."""
    net = f"10.79.{machine.number}"
    net6 = f"fd79:0:0:{machine.number}::"
    words = ["user", "id=n0", "restrict=on", f"net={net}.0/24", f"host={machine.gateway}"]
    words += [f"dns={net}.3", f"dhcpstart={machine.dhcp_address}"]
    words += [f"ipv6-prefix={net6}", f"ipv6-host={machine.gateway6}", f"ipv6-dns={net6}3"]
    words += [
        f"hostfwd=tcp:127.0.0.1:{port}-{address}:{SSH}" for address, port in machine.ports.items()
    ]
    return ",".join(words)


def cluster_network(machine: Machine, run: Path) -> str:
    """Return QEMU's option for the second interface: frames go to the other machine's socket."""
    own, other = run / f"net-{machine.number}", run / f"net-{1 - machine.number}"
    return f"dgram,id=n1,local.type=unix,local.path={own},remote.type=unix,remote.path={other}"


def command(machine: Machine, image: Path, repo: Path, folder: Path, run: Path) -> list[str]:
    """Return the argv that starts a machine, detached.

    *image* has disk.img, vmlinuz and initrd.img; *folder* the machine's overlay and seed; *run* its sockets.
    """
    boot = "root=/dev/vda ro console=ttyS0 quiet net.ifnames=0 mitigations=off"
    # systemd waits 90 s for a disk and a service, which is too short for a machine on busy cores (seen)
    boot += f" systemd.default_device_timeout_sec={PATIENCE} systemd.default_timeout_start_sec={PATIENCE}"
    overlay = f"file={folder / machine.name}.qcow2,if=virtio,format=qcow2,cache=unsafe"
    read_only = "if=virtio,format=raw,readonly=on"
    argv = ["qemu-system-x86_64", "-name", machine.name, "-machine", "q35"]
    # software emulation on purpose: /dev/kvm may exist and not work (nested, restricted), and CI has none
    argv += [
        "-accel",
        f"tcg,tb-size={TRANSLATIONS_MIB}",
        "-cpu",
        CPU,
        "-smp",
        "1",
        "-m",
        str(MEMORY_MIB),
    ]
    argv += ["-display", "none", "-no-user-config", "-nodefaults", "-device", "virtio-rng-pci"]
    argv += ["-kernel", str(image / "vmlinuz"), "-initrd", str(image / "initrd.img")]
    argv += ["-append", f"{boot} {SECURITY[machine.family]}"]
    argv += ["-drive", overlay, "-drive", f"file={folder / machine.name}.seed,{read_only}"]
    argv += ["-drive", f"file={repo},{read_only}"]
    argv += ["-netdev", user_network(machine)]
    argv += ["-device", f"virtio-net-pci,netdev=n0,mac=52:54:00:79:00:0{machine.number}"]
    argv += ["-netdev", cluster_network(machine, run)]
    argv += ["-device", f"virtio-net-pci,netdev=n1,mac=52:54:00:80:00:0{machine.number}"]
    argv += ["-serial", f"file:{folder / machine.name}.console"]
    argv += ["-qmp", f"unix:{run / machine.name}.qmp,server=on,wait=off"]
    return [*argv, "-daemonize", "-pidfile", str(run / f"{machine.name}.pid")]


def ssh_config(machines: Sequence[Machine], key: Path, known_hosts: Path) -> str:
    """Return ssh's configuration, which maps an address of a machine to its forwarded port.

    So ansible_host is the machine's real address, even if a play changes it.
    """
    lines = ["# Written by `fullmesh lab vm up`."]
    for machine in machines:
        for address, port in machine.ports.items():
            lines += [f"Host {address}", "  HostName 127.0.0.1", f"  Port {port}"]
            lines += [f"  HostKeyAlias {address}"]
    lines += ["Host *", "  User root", f"  IdentityFile {key}"]
    lines += [
        f"  {option.removeprefix('-o ').replace('=', ' ', 1)}"
        for option in ssh_options(known_hosts)
    ]
    return "\n".join(lines) + "\n"


def inventory(machines: Sequence[Machine], config: Path) -> str:
    """Return the text of hosts.yml."""
    controllers = ", ".join(format_value(machine.gateway) for machine in machines)
    lines = [
        "# Written by `fullmesh lab vm up`; the next one writes it again.",
        "all:",
        "  vars:",
        "    ansible_user: root",
        f"    ansible_ssh_common_args: {format_value(f'-F {config}')}",
        f"    fullmesh_controllers: [{controllers}]",
        "  children:",
        "    torch_nodes:",
        "      hosts:",
    ]
    for machine in machines:
        lines += [
            f"        {machine.name}:",
            f"          ansible_host: {format_value(machine.dhcp_address)}",
            f"          fullmesh_address: {format_value(machine.cluster_address)}",
            "          fullmesh_interface: eth1",
        ]
    return "\n".join(lines) + "\n"
