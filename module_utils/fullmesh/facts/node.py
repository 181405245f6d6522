"""Collect basic facts about a node from /proc, /sys and a few commands, without changing anything.

Runs on nodes: standard library only. Every reader returns an empty value if a tool or file is missing, and does not
raise.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
from typing import TYPE_CHECKING

from ..foreign_text import parse_decimal
from ..node_values import INTERFACE_NAME, OWN_NAME, SYSTEM_NAME, WORD_OR_NONE
from ..tools import ip

if TYPE_CHECKING:
    from ..commands import Runner
    from ..schema.node import Interface, Port, PortGid

COMMAND_SECONDS = 20  # no command here takes longer on a healthy node

FAMILIES = {
    "centos": ("CentOS", "RedHat"),
    "rhel": ("RedHat", "RedHat"),
    "rocky": ("Rocky", "RedHat"),
    "almalinux": ("AlmaLinux", "RedHat"),
    "ol": ("OracleLinux", "RedHat"),
    "ubuntu": ("Ubuntu", "Debian"),
    "debian": ("Debian", "Debian"),
}


def read_stripped(path: str, default: str = "") -> str:
    """Return the stripped text of *path*, or *default* if it is unreadable."""
    try:
        with open(path, "rb") as handle:
            return handle.read().decode("utf-8", "replace").strip()
    except OSError:
        return default


def read_boot_mark() -> str:
    """Return a text that changes with a restart: the kernel's boot id, and the start time of process 1 (containers)."""
    started = read_stripped("/proc/1/stat").rpartition(")")[2].split()
    return f"{read_stripped('/proc/sys/kernel/random/boot_id')}/{''.join(started[19:20])}"


def has_transactions(store: str = "/var/lib/fullmesh/rollback") -> bool:
    """Return whether the store of changes that revert themselves has a folder."""
    with contextlib.suppress(OSError), os.scandir(store) as found:
        return any(entry.is_dir() for entry in found)
    return False


def run_command(argv: list[str], seconds: float = COMMAND_SECONDS) -> tuple[int, str]:
    """Return (exit status, stdout) of a command: (127, "") if it is missing, (124, "") after a timeout."""
    env = dict(os.environ, LC_ALL="C", PATH="/usr/sbin:/usr/bin:/sbin:/bin")
    try:
        done = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            env=env,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, ""
    except OSError:
        return 127, ""
    return done.returncode, done.stdout.decode("utf-8", "replace")


def parse_os_release(text: str) -> dict[str, str]:
    """Return Ansible's names for a distribution in os-release(5). A name that is not a word is replaced by its ID."""
    values = dict(re.findall(r'^([A-Z_]+)="?([^"\n]*)"?$', text, re.MULTILINE))
    own = values.get("ID", "") if WORD_OR_NONE.match(values.get("ID", "")) else ""
    named = values.get("NAME", "") if SYSTEM_NAME.match(values.get("NAME", "")) else own
    name, family = FAMILIES.get(own, (named, ""))
    version = (
        values.get("VERSION_ID", "") if WORD_OR_NONE.match(values.get("VERSION_ID", "")) else ""
    )
    codename = values.get("VERSION_CODENAME", "")
    codename = codename if SYSTEM_NAME.match(codename) else ""
    return {
        "distribution": name,
        "distribution_version": version,
        "distribution_major_version": version.split(".")[0],
        "distribution_release": codename or name,
        "os_family": family,
        "os_name": values.get("PRETTY_NAME", ""),
    }


def find_package_manager(root: str = "/") -> str:
    """Return the node's package manager: apt, dnf or yum."""
    for path, name in (("usr/bin/apt-get", "apt"), ("usr/bin/dnf", "dnf"), ("usr/bin/yum", "yum")):
        if os.path.exists(os.path.join(root, path)):
            return name
    return ""


def map_global_addresses(run: Runner) -> dict[str, list[str]]:
    """Return {interface: [address with prefix]} without link-local IPv6."""
    found = {
        name: [one for one in held if not one.lower().startswith("fe80:")]
        for name, held in ip.parse_addresses(run(ip.SHOW_ADDRESSES)[1]).items()
    }
    return {name: held for name, held in found.items() if held}


def list_interfaces(sys_net: str = "/sys/class/net") -> list[Interface]:
    """Return every interface: name, kind, mac, mtu, state, speed (Mbit/s, 0 unknown), addresses with prefix.

    kind is the kernel's DEVTYPE ("vlan", "bond", "bridge" ..., "" for a NIC). A bond's member shows the bond's hardware
    address, so mac is the NIC's own one. Interfaces with unusual names are left out, because the controller rejects
    them (node_values).
    """
    addresses = map_global_addresses(run_command)
    result: list[Interface] = []
    try:
        names = sorted(os.listdir(sys_net))
    except OSError:
        names = []
    for name in names:
        base = os.path.join(sys_net, name)
        if not os.path.isdir(base) or not INTERFACE_NAME.match(name):
            continue
        speed = read_stripped(base + "/speed", "0")
        mac = read_stripped(base + "/bonding_slave/perm_hwaddr") or read_stripped(base + "/address")
        result.append(
            {
                "name": name,
                "kind": parse_devtype(read_stripped(base + "/uevent")),
                "mac": mac.lower(),
                "mtu": int(read_stripped(base + "/mtu", "0") or 0),
                "state": read_stripped(base + "/operstate", "unknown"),
                "carrier": read_stripped(base + "/carrier", "0") == "1",
                "speed": parse_decimal(speed) or 0,
                "addresses": addresses.get(name, []),
            }
        )
    return result


def parse_devtype(uevent: str) -> str:
    """Return DEVTYPE from the text of an interface's uevent file."""
    for line in uevent.splitlines():
        if line.startswith("DEVTYPE="):
            return line.split("=", 1)[1]
    return ""


def list_listening_ports(proc_net: str = "/proc/net") -> list[int]:
    """Return the listening TCP ports from /proc/net/tcp{,6} (state 0A, proc(5))."""
    ports = set()
    for name in ("tcp", "tcp6"):
        for line in read_stripped(os.path.join(proc_net, name)).splitlines()[1:]:
            fields = line.split()
            if fields[3:4] == ["0A"]:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return sorted(ports)


def measure_free_bytes(path: str) -> int:
    """Return the bytes free for ordinary users on the file system of *path*, even if it does not exist yet."""
    while path and not os.path.exists(path):
        path = os.path.dirname(path)
    try:
        stat = os.statvfs(path or "/")
    except OSError:
        return 0
    return stat.f_bavail * stat.f_frsize


def count_gpus() -> int:
    """Return the number of GPUs that the NVIDIA driver shows, 0 without a driver."""
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return 0


def list_hcas() -> list[str]:
    """Return the RDMA devices, [] if the kernel has none."""
    try:
        return sorted(os.listdir("/sys/class/infiniband"))
    except OSError:
        return []


def list_rdma_ports(base: str = "/sys/class/infiniband") -> list[Port]:
    """Return every port of every RDMA device (Documentation/ABI/stable/sysfs-class-infiniband).

    Each has device, port, driver, layer (``InfiniBand`` or ``Ethernet``), active, and the GIDs in use. A GID has index,
    type (``RoCE v2`` ...), gid and interface.
    """
    found: list[Port] = []
    devices = list_hcas() if base == "/sys/class/infiniband" else sorted(os.listdir(base))
    for device in devices:
        ports = os.path.join(base, device, "ports")
        driver = os.path.basename(os.path.realpath(os.path.join(base, device, "device/driver")))
        for port in sorted(os.listdir(ports)) if os.path.isdir(ports) else []:
            here = os.path.join(ports, port)
            found.append(
                {
                    "device": device,
                    "port": int(port),
                    "driver": driver,
                    "layer": read_stripped(here + "/link_layer"),
                    "active": read_stripped(here + "/state").startswith("4:"),
                    "gids": list_port_gids(here),
                }
            )
    return found


def list_port_gids(port: str) -> list[PortGid]:
    """Return a port's GIDs that are not empty. Reading the type of an empty one is an error (EINVAL)."""
    folder = port + "/gids"
    found: list[PortGid] = []
    for index in sorted(os.listdir(folder), key=int)[:64] if os.path.isdir(folder) else []:
        gid = read_stripped(os.path.join(folder, index))
        if gid.strip("0:"):
            kind = read_stripped(port + "/gid_attrs/types/" + index)
            interface = read_stripped(port + "/gid_attrs/ndevs/" + index)
            found.append({"index": int(index), "type": kind, "gid": gid, "interface": interface})
    return found


def detect_container() -> str:
    """Return the kind of container that systemd detects, or ""."""
    word = run_command(["systemd-detect-virt", "--container"])[1].strip()
    return "" if word == "none" else word


def find_full_name() -> str:
    """Return the node's fully qualified name without a query to a name server, which may not answer."""
    name = socket.gethostname()
    for line in read_stripped("/etc/hosts").splitlines():
        fields = line.split("#")[0].split()[1:]
        if name in fields:
            return fields[0] if "." in fields[0] and OWN_NAME.match(fields[0]) else name
    return name
