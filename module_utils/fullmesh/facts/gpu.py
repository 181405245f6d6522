"""Collect a node's NVIDIA GPUs and their driver from the PCI bus, /proc, /sys and ``nvidia-smi``.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ..foreign_text import ForeignTextError
from ..tools import nvidia_smi
from .accelerators import PCI, list_accelerators
from .node import detect_container, read_stripped, run_command

if TYPE_CHECKING:
    from ..schema.gpu import (
        BuildTools,
        FabricManager,
        GpuFacts,
        PciDevices,
        PciGpu,
        SmiDetails,
        Xid,
    )

VENDOR = "0x10de"
BRIDGE = "0x0680"  # an NVSwitch is a bridge of NVIDIA's
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)")
FALLEN = re.compile(r"NVRM: .*fallen off the bus", re.IGNORECASE)
FABRIC_MANAGER = "nvidia-fabricmanager.service"
VERSION = re.compile(r"[Ff]abric [Mm]anager version is\s*:\s*([0-9.]+)")


def parse_xids(text: str) -> list[Xid]:
    """Return the driver's error reports in a kernel log: each number once per GPU, with its count."""
    found: dict[tuple[str, int], Xid] = {}
    for line in text.splitlines():
        match = XID.search(line)
        if match:
            key = (match.group(1), int(match.group(2)))
        elif FALLEN.search(line):
            key = ("", 79)  # newer drivers say it in words alone
        else:
            continue
        held = found.setdefault(key, {"bus": key[0], "xid": key[1], "times": 0, "text": ""})
        held["times"] += 1
        held["text"] = line.strip()[:200]
    return [found[key] for key in sorted(found)]


def list_nvidia_devices(base: str = PCI) -> PciDevices:
    """Return the GPUs and NVSwitches on the bus, with each GPU's driver. Needs no driver."""
    gpus: list[PciGpu] = [
        {"bus": one["bus"], "device": one["device"], "driver": one["driver"]}
        for one in list_accelerators(base)
        if one["vendor"] == "nvidia"
    ]
    switches = 0
    for name in os.listdir(base) if os.path.isdir(base) else []:
        here = os.path.join(base, name)
        switches += (
            read_stripped(here + "/vendor") == VENDOR
            and read_stripped(here + "/class")[:6] == BRIDGE
        )
    return {"gpus": gpus, "switches": switches}


def read_secure_boot(path: str = SECURE_BOOT) -> bool | None:
    """Return the firmware's value, None without EFI. It is the last byte, after four bytes of flags."""
    try:
        with open(path, "rb") as stream:
            held = stream.read()
    except OSError:
        return None
    return bool(held[4]) if len(held) > 4 else None  # noqa: PLR2004 (four bytes of flags)


def observe_fabric_manager() -> FabricManager:
    """Return the fabric manager's state and installed version (``Fabric Manager version is : 580.95.05``)."""
    active = run_command(["systemctl", "is-active", FABRIC_MANAGER])[1].strip()
    found = VERSION.search(run_command(["nv-fabricmanager", "--version"])[1])
    return {"active": active, "version": found.group(1) if found else ""}


def is_in_container() -> bool:
    """Return whether the kernel and its log belong to another machine."""
    return bool(detect_container())


def read_kernel_messages() -> str:
    """Return the kernel's messages since its start, or "" in a container, which would see its host's."""
    return (
        ""
        if is_in_container()
        else str(run_command(["journalctl", "-k", "-b", "--no-pager", "-o", "cat"])[1])
    )


def find_build_tools(release: str) -> BuildTools:
    """Return the build tools that DKMS needs for the running kernel."""
    places = ("/usr/bin/gcc", "/usr/bin/cc")
    return {
        "compiler": next((path for path in places if os.path.exists(path)), ""),
        "headers": os.path.exists(f"/lib/modules/{release}/build/Makefile"),
    }


def observe_smi() -> SmiDetails:
    """Return the data of ``nvidia-smi``. ``failed`` if it is installed and does not work."""
    code, text = run_command(nvidia_smi.SHOW_ALL)
    failed = code not in (0, 127)
    found: SmiDetails = {"driver": "", "cuda": "", "cards": [], "processes": [], "failed": failed}
    if code == 0:
        try:
            report = nvidia_smi.parse_smi(text)
            found["driver"], found["cuda"] = report["driver"], report["cuda"]
            found["cards"], found["processes"] = report["cards"], report["processes"]
        except ForeignTextError:
            found["failed"] = True
    if found["cards"]:
        found["topology"] = nvidia_smi.parse_topology(run_command(nvidia_smi.SHOW_TOPOLOGY)[1])
        found["nvlinks"] = nvidia_smi.parse_nvlinks(run_command(nvidia_smi.SHOW_NVLINKS)[1])
    return found


def observe_gpus() -> GpuFacts:
    """Return all facts about the GPUs."""
    release = os.uname().release
    modules = [line.split(" ", 1)[0] for line in read_stripped("/proc/modules").splitlines()]
    return {
        "kernel": release,
        "container": is_in_container(),
        "pci": list_nvidia_devices(),
        "smi": observe_smi(),
        "loaded": read_stripped("/sys/module/nvidia/version"),
        "nouveau": "nouveau" in modules,
        "secure_boot": read_secure_boot(),
        "xids": parse_xids(read_kernel_messages()),
        "tools": find_build_tools(release),
    }
