"""Find the accelerators on a node's PCI bus.

Needs no driver.

Runs on nodes: standard library only. Vendors and classes are those of the PCI ID repository (pci.ids).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .node import count_gpus, read_stripped

if TYPE_CHECKING:
    from ..schema.node import Accelerator, Accelerators

# PCI vendor -> name and PCI classes. 0x0300 is VGA, 0x0302 a 3D controller, 0x0380 another display controller, 0x1200 a
# processing accelerator. AMD's VGA devices are left out: most are graphics of a CPU, which ROCm does not support.
VENDORS = {
    "0x10de": ("nvidia", ("0x0300", "0x0302")),
    "0x1002": ("amd", ("0x0380", "0x1200")),
    "0x19e5": ("ascend", ("0x1200",)),
    "0x1da3": ("gaudi", ("0x1200",)),
}
PCI = "/sys/bus/pci/devices"
LOADED = "/sys/module/nvidia/version"


def list_accelerators(base: str = PCI) -> list[Accelerator]:
    """Return every accelerator on the bus with its driver, in the order of the bus."""
    found: list[Accelerator] = []
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        here = os.path.join(base, name)
        vendor, classes = VENDORS.get(read_stripped(here + "/vendor"), ("", ()))
        if not vendor or read_stripped(here + "/class")[:6] not in classes:
            continue
        link = os.path.join(here, "driver")
        driver = os.path.basename(os.path.realpath(link)) if os.path.exists(link) else ""
        device = read_stripped(here + "/device")
        found.append({"vendor": vendor, "bus": name, "device": device, "driver": driver})
    return found


def observe_accelerators() -> Accelerators:
    """Return the PCI devices, and the driver's version and number of GPUs if it is loaded."""
    return {
        "devices": list_accelerators(),
        "nvidia_driver": read_stripped(LOADED),
        "nvidia_shown": count_gpus(),
    }
