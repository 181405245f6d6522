# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read GPUs, their topology and their NVLinks from nvidia-smi(1).

The parsers return empty values for missing fields, because drivers of ten years differ.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ..foreign_text import ForeignTextError

if TYPE_CHECKING:
    from typing import Any

    from ..schema.gpu import GpuCard, GpuProcess, NvLinks, SmiReport

SHOW_ALL = ["nvidia-smi", "-q", "-x"]
SHOW_TOPOLOGY = ["nvidia-smi", "topo", "-m"]
SHOW_NVLINKS = ["nvidia-smi", "nvlink", "-s"]
EMPTY = ("", "N/A", "[N/A]", "[Not Supported]", "None")
TOPOLOGY_WORDS = re.compile(r"^(X|SYS|NODE|PHB|PXB|PIX|NV\d+)$")
MOST = 64
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


def read_leading_number(text: str) -> int:
    """Return the number in a field such as ``0``, ``16x``, ``81920 MiB``, or 0 if there is none."""
    match = re.match(r"\s*(\d+)", text)
    return int(match.group(1)) if match else 0


def count_uncorrectable_errors(gpu: Any, kind: str) -> int:
    """Count the uncorrectable ECC errors of all memories. The fields depend on the driver's age."""
    base = "ecc_errors/" + kind + "/"
    new = ("dram_uncorrectable", "sram_uncorrectable")
    newer = ("sram_uncorrectable_parity", "sram_uncorrectable_secded")
    total = sum(read_leading_number(find_first_text(gpu, base + name)) for name in new + newer)
    return total or read_leading_number(find_first_text(gpu, base + "double_bit/total"))


def list_slowdowns(gpu: Any) -> list[str]:
    """Return the reasons in ``SLOWED`` that reduce a GPU's clocks now."""
    both = (
        "clocks_event_reasons/clocks_event_reason_",
        "clocks_throttle_reasons/clocks_throttle_reason_",
    )
    return [
        name for name in SLOWED if find_first_text(gpu, *(base + name for base in both)) == "Active"
    ]


def read_gpu_card(gpu: Any) -> GpuCard:
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
        "generation": read_leading_number(find_first_text(gpu, link + "pcie_gen/current_link_gen")),
        "generation_most": read_leading_number(
            find_first_text(gpu, link + "pcie_gen/max_link_gen")
        ),
        "mig": find_first_text(gpu, "mig_mode/current_mig"),
        "fabric": find_first_text(gpu, "fabric/state"),
    }


def read_gpu_processes(gpu: Any) -> list[GpuProcess]:
    """Return the compute processes on a GPU, without those of a desktop (type G)."""
    found: list[GpuProcess] = []
    for process in gpu.findall("processes/process_info"):
        if "C" in find_first_text(process, "type"):
            found.append(
                {
                    "pid": read_leading_number(find_first_text(process, "pid")),
                    "name": find_first_text(process, "process_name"),
                }
            )
    return found


def parse_smi(text: str) -> SmiReport:
    """Parse ``nvidia-smi -q -x``: driver, CUDA, GPUs and their processes.

    Raises:
        ForeignTextError: it is not XML.
    """
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 (the driver's own output)
    except ElementTree.ParseError as error:
        raise ForeignTextError(f"it is not XML: {error}") from None
    gpus = root.findall("gpu")[:MOST]
    return {
        "driver": find_first_text(root, "driver_version"),
        "cuda": find_first_text(root, "cuda_version"),
        "cards": [read_gpu_card(gpu) for gpu in gpus],
        "processes": [process for gpu in gpus for process in read_gpu_processes(gpu)],
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
