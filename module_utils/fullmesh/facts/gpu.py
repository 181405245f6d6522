"""Collect a node's NVIDIA GPUs and their driver from the PCI bus, /proc, /sys and ``nvidia-smi``.

Runs on nodes: standard library only. The parsers have no side effects, and return empty values for missing fields,
because drivers of ten years differ.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from .accelerators import PCI, list_accelerators
from .node import read_stripped, run_command

if TYPE_CHECKING:
    from typing import Any

    from ..schema.gpu import (
        BuildTools,
        FabricManager,
        GpuCard,
        GpuFacts,
        GpuProcess,
        NvLinks,
        PciDevices,
        PciGpu,
        SmiDetails,
        SmiReport,
        Xid,
    )

VENDOR = "0x10de"
BRIDGE = "0x0680"  # an NVSwitch is a bridge of NVIDIA's
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
EMPTY = ("", "N/A", "[N/A]", "[Not Supported]", "None")
# NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)")
FALLEN = re.compile(r"NVRM: .*fallen off the bus", re.IGNORECASE)
TOPOLOGY_WORDS = re.compile(r"^(X|SYS|NODE|PHB|PXB|PIX|NV\d+)$")
MOST = 64
FABRIC_MANAGER = "nvidia-fabricmanager.service"
VERSION = re.compile(r"[Ff]abric [Mm]anager version is\s*:\s*([0-9.]+)")
# Reasons for reduced clocks under load. 535 and later call them clocks_event_reasons, earlier versions throttle. Idle,
# a software power cap and user-defined clocks do not count.
SLOWED = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")


def find_first_text(node: Any, *paths: str) -> str:
    """Return the first text of *paths* that is not empty."""
    for path in paths:
        text = (node.findtext(path) or "").strip()
        if text not in EMPTY:
            return text
    return ""


def parse_leading_number(text: str) -> int:
    """Return the number in a field such as ``0``, ``16x``, ``81920 MiB``, or 0 if there is none."""
    match = re.match(r"\s*(\d+)", text)
    return int(match.group(1)) if match else 0


def count_uncorrectable_errors(gpu: Any, kind: str) -> int:
    """Count the uncorrectable ECC errors of all memories. The fields depend on the driver's age."""
    base = "ecc_errors/" + kind + "/"
    new = ("dram_uncorrectable", "sram_uncorrectable")
    newer = ("sram_uncorrectable_parity", "sram_uncorrectable_secded")
    total = sum(parse_leading_number(find_first_text(gpu, base + name)) for name in new + newer)
    return total or parse_leading_number(find_first_text(gpu, base + "double_bit/total"))


def list_slowdowns(gpu: Any) -> list[str]:
    """Return the reasons in ``SLOWED`` that reduce a GPU's clocks now."""
    both = (
        "clocks_event_reasons/clocks_event_reason_",
        "clocks_throttle_reasons/clocks_throttle_reason_",
    )
    return [
        name for name in SLOWED if find_first_text(gpu, *(base + name for base in both)) == "Active"
    ]


def parse_gpu_card(gpu: Any) -> GpuCard:
    """Parse one ``<gpu>`` of ``nvidia-smi -q -x``."""
    link = "pci/pci_gpu_link_info/"
    return {
        "name": find_first_text(gpu, "product_name"),
        "uuid": find_first_text(gpu, "uuid"),
        "bus": find_first_text(gpu, "pci/pci_bus_id") or str(gpu.get("id", "")),
        "memory": find_first_text(gpu, "fb_memory_usage/total"),
        "memory_used": find_first_text(gpu, "fb_memory_usage/used"),
        "compute_mode": find_first_text(gpu, "compute_mode"),
        "slowed": list_slowdowns(gpu),
        "persistence": find_first_text(gpu, "persistence_mode"),
        "ecc_mode": find_first_text(gpu, "ecc_mode/current_ecc"),
        "ecc": find_first_text(gpu, "ecc_errors/volatile/dram_uncorrectable"),
        "ecc_volatile": count_uncorrectable_errors(gpu, "volatile"),
        "ecc_aggregate": count_uncorrectable_errors(gpu, "aggregate"),
        "remap_failed": find_first_text(gpu, "remapped_rows/remapped_row_failure"),
        "remap_pending": find_first_text(gpu, "remapped_rows/remapped_row_pending"),
        "width": find_first_text(gpu, link + "link_widths/current_link_width"),
        "width_most": find_first_text(gpu, link + "link_widths/max_link_width"),
        "generation": parse_leading_number(
            find_first_text(gpu, link + "pcie_gen/current_link_gen")
        ),
        "generation_most": parse_leading_number(
            find_first_text(gpu, link + "pcie_gen/max_link_gen")
        ),
        "mig": find_first_text(gpu, "mig_mode/current_mig"),
        "fabric": find_first_text(gpu, "fabric/state"),
    }


def parse_gpu_processes(gpu: Any) -> list[GpuProcess]:
    """Return the compute processes on a GPU, without those of a desktop (type G)."""
    found: list[GpuProcess] = []
    for process in gpu.findall("processes/process_info"):
        if "C" in find_first_text(process, "type"):
            found.append(
                {
                    "pid": parse_leading_number(find_first_text(process, "pid")),
                    "name": find_first_text(process, "process_name"),
                }
            )
    return found


def parse_smi(text: str) -> SmiReport:
    """Parse ``nvidia-smi -q -x``: driver, CUDA, GPUs and their processes.

    Raises:
        ElementTree.ParseError: it is not XML.
    """
    root = ElementTree.fromstring(text)  # noqa: S314 (the driver's own output)
    gpus = root.findall("gpu")[:MOST]
    return {
        "driver": find_first_text(root, "driver_version"),
        "cuda": find_first_text(root, "cuda_version"),
        "cards": [parse_gpu_card(gpu) for gpu in gpus],
        "processes": [process for gpu in gpus for process in parse_gpu_processes(gpu)],
    }


def parse_topology(text: str) -> dict[str, dict[str, str]]:
    """Parse ``nvidia-smi topo -m``: from -> to -> NV18, PIX, PXB, PHB, NODE or SYS."""
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines() if line.strip()]
    if not lines:
        return {}
    names = [
        name for name in re.split(r"[\t ]+", lines[0].strip()) if re.match(r"[A-Za-z]+_?\d", name)
    ]
    found = {}
    for line in lines[1:]:
        words = line.split()
        links = [one for one in words[1 : len(names) + 1] if TOPOLOGY_WORDS.match(one)]
        if words[0] in names and len(links) == len(names):
            found[words[0]] = {name: links[at] for at, name in enumerate(names) if name != words[0]}
    return found


def parse_nvlinks(text: str) -> list[NvLinks]:
    """Parse ``nvidia-smi nvlink -s``: the speeds (GB/s) of each GPU's links, and the number of inactive ones."""
    found: list[NvLinks] = []
    for line in text.splitlines():
        head = re.match(r"GPU (\d+):", line.strip())
        if head:
            found.append({"gpu": int(head.group(1)), "speeds": [], "down": 0})
            continue
        link = re.match(r"Link \d+: (?:([0-9.]+) GB/s|<inactive>)", line.strip())
        if link and found and link.group(1):
            found[-1]["speeds"].append(float(link.group(1)))
        elif link and found:
            found[-1]["down"] += 1
    return found


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
    return bool(run_command(["systemd-detect-virt", "--container"])[0] == 0)


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
    code, text = run_command(["nvidia-smi", "-q", "-x"])
    failed = code not in (0, 127)
    found: SmiDetails = {"driver": "", "cuda": "", "cards": [], "processes": [], "failed": failed}
    if code == 0:
        try:
            told = parse_smi(text)
            found["driver"], found["cuda"] = told["driver"], told["cuda"]
            found["cards"], found["processes"] = told["cards"], told["processes"]
        except ElementTree.ParseError:
            found["failed"] = True
    if found["cards"]:
        found["topology"] = parse_topology(run_command(["nvidia-smi", "topo", "-m"])[1])
        found["nvlinks"] = parse_nvlinks(run_command(["nvidia-smi", "nvlink", "-s"])[1])
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
