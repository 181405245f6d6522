"""Which machines there are, with which addresses and which QEMU command: pure functions, nothing touched.

Nothing leaves this machine: the first card is QEMU's user network (a DHCP server and a gateway inside of QEMU, without
a way out: ``restrict=on``), reached through forwarded ports of 127.0.0.1; the second card joins the two machines by a
pair of unix sockets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devtools.lab.errors import LabError
from devtools.lab.inventory import quoted, ssh_options

FAMILIES = ("el", "ubuntu")
DEFAULT_NAME = "vm"
MEMORY_MIB = 1024
PATIENCE = 900
# Emulating an old processor costs 20 s of a core for a boot, the newest one 33 s (measured).
CPU = "Nehalem"
# QEMU's cache of translated code; its default takes a gigabyte for each machine.
TRANSLATIONS_MIB = 256
# Addresses of the first card: from DHCP at first, the other one for the change to a static address.
DHCP_HOST, STATIC_HOST = 15, 77
SSH = 22
# SELinux is EL's; the look-alike of Ubuntu runs without any, as AppArmor's profiles are not in it.
SECURITY = {"el": "security=selinux selinux=1", "ubuntu": "selinux=0"}


@dataclass(frozen=True)
class Machine:
    """One virtual machine.

    Attributes:
        name: in the inventory.
        family: el or ubuntu.
        number: 0 or 1; the last part of its networks.
        ports: address of the first card -> port of 127.0.0.1 that leads to its sshd.
    """

    name: str
    family: str
    number: int
    ports: Mapping[str, int]

    @property
    def hostname(self) -> str:
        """The machine's own name, on purpose not the inventory's."""
        return f"gpu-{self.name}.lab.example" if self.family == "el" else f"gpu-{self.name}"

    @property
    def dhcp_address(self) -> str:
        """What QEMU's DHCP server gives to the first card."""
        return f"10.79.{self.number}.{DHCP_HOST}"

    @property
    def static_address(self) -> str:
        """The other address of the first card's network that a port leads to."""
        return f"10.79.{self.number}.{STATIC_HOST}"

    @property
    def gateway(self) -> str:
        """QEMU itself in the first card's network; the controller's connections come from it."""
        return f"10.79.{self.number}.2"

    @property
    def gateway6(self) -> str:
        """QEMU itself, IPv6."""
        return f"fd79:0:0:{self.number}::2"

    @property
    def cluster_address(self) -> str:
        """The planned address of the second card."""
        return f"10.80.0.{11 + self.number}/24"

    def as_dict(self) -> dict[str, Any]:
        """Return the machine as plain data for vm.json."""
        return {**asdict(self), "ports": dict(self.ports)}


def first_card_addresses(number: int) -> list[str]:
    """The addresses that a forwarded port leads to."""
    return [f"10.79.{number}.{host}" for host in (DHCP_HOST, STATIC_HOST)]


def check_families(text: str) -> tuple[str, ...]:
    """Read ``el,ubuntu``; LB-113 on a family that there is no machine of, or twice the same."""
    families = tuple(part.strip() for part in text.split(",") if part.strip())
    if not families or not set(families) <= set(FAMILIES) or len(set(families)) < len(families):
        raise LabError(
            "LB-113",
            f"--families {text!r} is not possible for virtual machines",
            f"Give each of {', '.join(FAMILIES)} at most once, separated by a comma.",
        )
    return families


def user_network(machine: Machine) -> str:
    """Return QEMU's option for the first card's network."""
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
    """Return QEMU's option for the second card: frames go to the other machine's socket."""
    own, other = run / f"net-{machine.number}", run / f"net-{1 - machine.number}"
    return f"dgram,id=n1,local.type=unix,local.path={own},remote.type=unix,remote.path={other}"


def command(machine: Machine, image: Path, repo: Path, folder: Path, run: Path) -> list[str]:
    """Return the argv that starts a machine, detached.

    *image* has disk.img, vmlinuz and initrd.img; *folder* the machine's overlay and seed; *run* its sockets.
    """
    boot = "root=/dev/vda ro console=ttyS0 quiet net.ifnames=0 mitigations=off"
    # systemd gives a disk and a service 90 s, which a machine on busy cores does not keep (seen)
    boot += f" systemd.default_device_timeout_sec={PATIENCE} systemd.default_timeout_start_sec={PATIENCE}"
    overlay = f"file={folder / machine.name}.qcow2,if=virtio,format=qcow2,cache=unsafe"
    read_only = "if=virtio,format=raw,readonly=on"
    argv = ["qemu-system-x86_64", "-name", machine.name, "-machine", "q35"]
    # software emulation on purpose: /dev/kvm may exist and boot nothing (nested, restricted), and CI has none
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
    """Return ssh's configuration: an address of a machine leads to its forwarded port.

    So ansible_host is the address that the machine has, also when a play gives it another one.
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
    controllers = ", ".join(quoted(machine.gateway) for machine in machines)
    lines = [
        "# Written by `fullmesh lab vm up`; the next one writes it again.",
        "all:",
        "  vars:",
        "    ansible_user: root",
        f"    ansible_ssh_common_args: {quoted(f'-F {config}')}",
        f"    fullmesh_controllers: [{controllers}]",
        "  children:",
        "    torch_nodes:",
        "      hosts:",
    ]
    for machine in machines:
        lines += [
            f"        {machine.name}:",
            f"          ansible_host: {quoted(machine.dhcp_address)}",
            f"          fullmesh_address: {quoted(machine.cluster_address)}",
            "          fullmesh_interface: eth1",
        ]
    return "\n".join(lines) + "\n"
