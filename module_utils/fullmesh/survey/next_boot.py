# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Survey a node's configuration for its next boot: files, units and boot loader, and the present state.

src/fullmesh/causes/next_boot judges it. Settings that other programs change at runtime after every boot are left out
(ip_forward by kubelet, Docker and libvirt, nf_conntrack_max by kube-proxy).
"""

from __future__ import annotations

import glob
import ipaddress
import os
from typing import TYPE_CHECKING

from ..facts.configured import CONFIGURED, extract_addresses
from ..facts.sysctl import SysctlNode, normalize_value
from ..files import split_lines, split_words
from ..tools import ip, systemctl
from . import boot_files
from .filters import run_tool
from .net import read_kernel_file

if TYPE_CHECKING:
    from ..schema.next_boot import (
        CurrentMount,
        KeptAddress,
        KeptKernel,
        KeptRoute,
        KeptSetting,
        KeptTables,
        KeptUnit,
        NextBoot,
    )

# Settings that affect jobs and that only an administrator changes.
SETTINGS = (
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.core.somaxconn",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.all.arp_ignore",
    "net.ipv4.conf.all.arp_filter",
    "net.ipv4.neigh.default.gc_thresh3",
    "net.ipv6.neigh.default.gc_thresh3",
    "net.ipv6.conf.all.disable_ipv6",
)
# Units that a node needs to come back unchanged: ssh, network, time, packet filters, GPUs.
UNITS = (
    "ssh.service",
    "sshd.service",
    "ssh.socket",
    "NetworkManager.service",
    "systemd-networkd.service",
    "networking.service",
    "systemd-resolved.service",
    "chronyd.service",
    "chrony.service",
    "ntpd.service",
    "systemd-timesyncd.service",
    "firewalld.service",
    "nftables.service",
    "ufw.service",
    "nvidia-fabricmanager.service",
    "openibd.service",
    "opensm.service",
    "slurmd.service",
    "munge.service",
)
FACES = ("Id", "LoadState", "ActiveState", "UnitFileState", "NeedDaemonReload")
LIMITS = ("DefaultLimitMEMLOCK", "DefaultLimitNOFILE")
# Files other than the owners' that may configure an interface's addresses or routes at boot.
SCRIPTS = (
    "/etc/rc.local",
    "/etc/rc.d/rc.local",
    "/etc/network/if-*.d/*",
    "/etc/systemd/system/*.service",
    "/etc/systemd/system/*/*.service",
    "/etc/NetworkManager/dispatcher.d/*",
    "/etc/networkd-dispatcher/*/*",
    "/etc/keepalived/*.conf",
    "/etc/cloud/cloud.cfg.d/*",
    "/var/lib/cloud/seed/*/network-config",
    "/usr/lib/systemd/network/*.network",
    "/usr/lib/NetworkManager/system-connections/*",
    "/lib/netplan/*.yaml",
    "/usr/lib/netplan/*.yaml",
)
BY_HAND = ("boot", "static")  # rtnetlink(7): not learnt, and not of a routing daemon
NFTABLES = ("/etc/nftables.conf", "/etc/sysconfig/nftables.conf")
ROUTES_MOST = 32


def read_address_files() -> dict[str, str]:
    """Return path -> text of every file for the next boot that may give an interface its addresses."""
    patterns = [one for one in CONFIGURED if not one.startswith("/run/")]
    paths = {path for pattern in (*patterns, *SCRIPTS) for path in glob.glob(pattern)}
    return {path: read_kernel_file(path) for path in sorted(paths) if os.path.isfile(path)}


def run_if_answered(command: list[str]) -> str:
    """Return a command's output, or "" if it fails."""
    code, said = run_tool(command)
    return said if code == 0 else ""


def survey_boot_settings(node: SysctlNode) -> dict[str, KeptSetting]:
    """Return the next boot's values of the settings that are writable here."""
    rows = [(path, node.text(path) or "") for path in node.boot_files()]
    given = boot_files.parse_sysctl_files(rows)
    found: dict[str, KeptSetting] = {}
    for key in SETTINGS:
        if not node.why_not(key):
            value, source = boot_files.find_boot_setting(key, given)
            found[key] = {"value": normalize_value(value), "source": source}
    return found


def survey_boot_units() -> list[KeptUnit]:
    """Return the existing units with their states in systemd."""
    code, said = run_tool(systemctl.build_show_command(FACES, UNITS))
    found: dict[str, KeptUnit] = {}  # a unit that has two names comes twice
    for one in systemctl.parse_unit_blocks(said) if code == 0 else []:
        if one.get("LoadState", "not-found") != "not-found":
            found[one.get("Id", "")] = {
                "name": one.get("Id", ""),
                "load": one["LoadState"],
                "active": one.get("ActiveState", ""),
                "file": one.get("UnitFileState", ""),
                "stale": one.get("NeedDaemonReload") == "yes",
            }
    return list(found.values())


def survey_boot_address(own: str, kept: dict[str, str]) -> KeptAddress | None:
    """Return the cluster address and its configuration for the next boot. None if no interface has it."""
    for name, link in ip.parse_links(run_if_answered(ip.SHOW_LINKS)).items():
        for one in link["addresses"]:
            if one["address"].split("/")[0] != own:
                continue
            about = [
                text
                for text in kept.values()
                if boot_files.is_about_interface(text, name, link["mac"])
            ]
            return {
                "card": name,
                "leased": one["dynamic"] or any(map(boot_files.needs_address_lease, about)),
                "kept": any(own in extract_addresses(text) for text in kept.values()),
            }
    return None


def survey_boot_routes(peers: list[str], kept: dict[str, str]) -> list[KeptRoute]:
    """Return routes to peers that were added by hand or from a file."""
    far = [ipaddress.ip_address(one) for one in peers]
    known = {one for text in kept.values() for one in extract_addresses(text)}
    found: list[KeptRoute] = []
    for family in ("-4", "-6"):
        for one in ip.parse_routes(run_if_answered(ip.build_routes_command(family))):
            if one["protocol"] not in BY_HAND or one["to"] in ("default", ""):
                continue
            network = ipaddress.ip_network(one["to"], strict=False)
            if any(peer in network for peer in far) and len(found) < ROUTES_MOST:
                found.append(
                    {
                        "to": str(network),
                        "via": one["via"],
                        "card": one["dev"],
                        "protocol": one["protocol"],
                        "kept": bool(known & {str(network), str(network.network_address)}),
                    }
                )
    return found


def survey_boot_nftables() -> KeptTables | None:
    """Return the rules of nftables.service, or None without its file."""
    for path in NFTABLES:
        if os.path.isfile(path):
            text = boot_files.read_nft_file(path, read_kernel_file, glob.glob)
            return {
                "source": path,
                "tables": boot_files.parse_nft_tables(text),
                "drops": boot_files.has_nft_drops(text),
            }
    return None


def survey_mounts() -> list[CurrentMount]:
    """Return the present mounts of the kinds that jobs need."""
    found: list[CurrentMount] = []
    for line in split_lines(read_kernel_file("/proc/self/mounts")):
        one = boot_files.parse_mount(line)
        if one and (one["kind"] in boot_files.KINDS or one["point"] == boot_files.SHM):
            found.append(one)
    return found


def survey_boot_kernel() -> KeptKernel | None:
    """Return the running kernel and the next one. None if no known boot loader file exists."""
    running = os.uname().release
    entry = boot_files.find_next_boot_entry(read_kernel_file, glob.glob)
    if not entry:
        return None
    return {
        "running": running,
        "arguments": split_words(read_kernel_file("/proc/cmdline")),
        "next": entry["version"],
        "next_arguments": split_words(entry["arguments"]),
        "source": entry["source"],
        "driver": has_nvidia_module(running),
        "driver_next": has_nvidia_module(entry["version"]),
    }


def has_nvidia_module(version: str) -> bool:
    """Return whether a kernel's directory has NVIDIA's module."""
    folder = "/lib/modules/" + version
    places = ("updates/dkms", "extra", "extra/nvidia", "updates", "weak-updates", "weak-updates/nvidia",
              "kernel/drivers/video", "kernel/nvidia-*", "kernel/drivers/video/nvidia")  # fmt: skip
    return any(glob.glob(f"{folder}/{place}/nvidia.ko*") for place in places)


def survey_manager_limits() -> dict[str, str]:
    """Return systemd's present default limits for services."""
    code, said = run_tool(systemctl.build_show_command(LIMITS))
    found = systemctl.parse_properties(said) if code == 0 else {}
    return {one: found[one] for one in LIMITS if one in found}


def survey_permanent_limits() -> dict[str, KeptSetting]:
    """Return the limits in systemd's files."""
    paths = ["/etc/systemd/system.conf", *boot_files.list_system_drop_ins(glob.glob)]
    found: dict[str, KeptSetting] = {}
    for path in paths:
        for key, value in boot_files.parse_manager_limits(read_kernel_file(path)).items():
            if key in LIMITS:
                found[key] = {"value": value, "source": path}
    return found


def survey_next_boot(own: str, peers: list[str]) -> NextBoot:
    """Return everything that can be observed.

    Args:
        own: the node's cluster address.
        peers: the others'.
    """
    node = SysctlNode()
    inside = node.is_container()
    found: NextBoot = {
        "container": inside,
        "settings": survey_boot_settings(node),
        "tuned": boot_files.find_tuned_keys(read_kernel_file, glob.glob),
        "units": survey_boot_units(),
        "ufw": "ENABLED=yes" in read_kernel_file("/etc/ufw/ufw.conf"),
        "mounts": survey_mounts(),
        "mounts_kept": boot_files.find_boot_mounts(
            read_kernel_file("/etc/fstab"),
            read_kernel_file("/proc/self/mounts"),
            read_kernel_file,
            glob.glob,
        ),
    }
    if os.geteuid() == 0:  # NetworkManager's keyfiles are root's alone
        kept = read_address_files()
        found["routes"] = survey_boot_routes(peers, kept)
        if (held := survey_boot_address(own, kept)) is not None:
            found["address"] = held
    if (loaded := survey_boot_nftables()) is not None:
        found["tables"] = loaded
    if not inside:
        found["limits"], found["limits_kept"] = survey_manager_limits(), survey_permanent_limits()
        found["selinux_kept"] = boot_files.parse_selinux_mode(
            read_kernel_file("/etc/selinux/config")
        )
        if (boots := survey_boot_kernel()) is not None:
            found["kernel"] = boots
    return found
