"""Find the accelerators on a node's PCI bus.

Needs no driver.

Runs on nodes: standard library only. Vendors and classes are those of the PCI ID repository (pci.ids).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..foreign_text import parse_decimal
from .node import count_gpus, read_stripped

if TYPE_CHECKING:
    from ..schema.gpu import AmdGpu
    from ..schema.node import Accelerator, Accelerators

# PCI vendor -> name and PCI classes. 0x0300 is VGA, 0x0302 a 3D controller, 0x0380 another display controller, 0x1200 a
# processing accelerator. AMD's VGA devices count only if ROCm can compute on them (`list_rocm_buses`): most are
# graphics of a CPU.
VENDORS = {
    "0x10de": ("nvidia", ("0x0300", "0x0302")),
    "0x1002": ("amd", ("0x0380", "0x1200")),
    "0x19e5": ("ascend", ("0x1200",)),
    "0x1da3": ("gaudi", ("0x1200",)),
}
VGA = "0x0300"
PCI = "/sys/bus/pci/devices"
# The GPUs that the driver amdgpu offers to ROCm, a folder for each (drivers/gpu/drm/amd/amdkfd/kfd_topology.c).
KFD = "/sys/class/kfd/kfd/topology/nodes"
# GPUs with programs in torch for ROCm 7 (PYTORCH_ROCM_ARCH), as the driver writes them: 110501 is gfx1151 (Strix Halo),
# 90402 is gfx942 (MI300X). Graphics of other CPUs, such as gfx1036, are not among them.
ROCM_TARGETS = frozenset(
    [
        *(90000, 90006, 90008, 90010, 90402, 90500),
        *(100300, 110000, 110001, 110002, 110500, 110501, 120000, 120001),
    ]
)
LOADED = "/sys/module/nvidia/version"


def list_rocm_buses(base: str = KFD) -> set[str]:
    """Return the PCI addresses of the GPUs on which torch for ROCm can compute, none without the driver amdgpu."""
    found = set()
    for node in os.listdir(base) if os.path.isdir(base) else []:
        text = read_stripped(os.path.join(base, node, "properties"))
        held = dict(line.partition(" ")[::2] for line in text.splitlines())
        target = parse_decimal(held.get("gfx_target_version", ""))
        at, domain = (
            parse_decimal(held.get("location_id", "")),
            parse_decimal(held.get("domain", "")),
        )
        if target in ROCM_TARGETS and at is not None:
            # bus in the high byte, then 5 bits of the device and 3 of the function
            found.add(f"{domain or 0:04x}:{at >> 8 & 255:02x}:{at >> 3 & 31:02x}.{at & 7}")
    return found


def list_accelerators(base: str = PCI, kfd: str = KFD) -> list[Accelerator]:
    """Return every accelerator on the bus with its driver, in the order of the bus."""
    rocm = list_rocm_buses(kfd)
    found: list[Accelerator] = []
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        here = os.path.join(base, name)
        vendor, classes = VENDORS.get(read_stripped(here + "/vendor"), ("", ()))
        kind = read_stripped(here + "/class")[:6]
        if not vendor or not (kind in classes or (kind == VGA and name in rocm)):
            continue
        link = os.path.join(here, "driver")
        driver = os.path.basename(os.path.realpath(link)) if os.path.exists(link) else ""
        device = read_stripped(here + "/device")
        found.append({"vendor": vendor, "bus": name, "device": device, "driver": driver})
    return found


def count_uncorrectable(folder: str) -> int:
    """Return the errors in a GPU's folder ``ras``: a file for each of its blocks, "ue: 0" and "ce: 3" in lines."""
    found = 0
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        for line in read_stripped(os.path.join(folder, name)).splitlines():
            kind, _, number = line.partition(":")
            if name.endswith("_err_count") and kind == "ue":
                found += parse_decimal(number.strip()) or 0
    return found


def list_amd_gpus(base: str = PCI, kfd: str = KFD) -> list[AmdGpu]:
    """Return AMD's GPUs for computing, in the order of the bus (Documentation/gpu/amdgpu of the kernel)."""
    found: list[AmdGpu] = []
    for one in list_accelerators(base, kfd):
        here = os.path.join(base, one["bus"])
        if one["vendor"] == "amd":
            found.append(
                {
                    "bus": one["bus"],
                    "device": one["device"],
                    "driver": one["driver"],
                    "name": read_stripped(here + "/product_name"),
                    "uncorrectable": count_uncorrectable(here + "/ras"),
                }
            )
    return found


def observe_accelerators() -> Accelerators:
    """Return the PCI devices, and the driver's version and number of GPUs if it is loaded."""
    return {
        "devices": list_accelerators(),
        "nvidia_driver": read_stripped(LOADED),
        "nvidia_shown": count_gpus(),
    }
