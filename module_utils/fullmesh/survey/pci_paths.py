"""Read the PCIe paths of GPUs and RDMA interfaces: ACS, IOMMU and NUMA, which decide how they reach each other.

Runs on nodes: standard library only. Offsets and bits are those of the PCI Express Base Specification (named as in
Linux's include/uapi/linux/pci_regs.h). Nothing is read in a container or virtual machine, which cannot see this.
"""

from __future__ import annotations

import os
import re
import struct
from typing import TYPE_CHECKING

from ..facts.accelerators import PCI, list_accelerators
from ..facts.node import read_stripped, run_command

if TYPE_CHECKING:
    from ..schema.survey import PciPath

RDMA = "/sys/class/infiniband"
EXTENDED, EXTENDED_END = (
    0x100,
    0x1000,
)  # start of the extended capabilities, and the size of a config space
ACS, ACS_CONTROL = 0x000D, 0x06  # PCI_EXT_CAP_ID_ACS, PCI_ACS_CTRL
# PCI_ACS_RR and PCI_ACS_CR: requests and completions between two devices below go up to the root and down again.
REDIRECT = 0x04 | 0x08
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
OPEN_MODULE = "Open Kernel Module"
DMA_BUF_KERNEL = (5, 12)
VERSION = "/proc/driver/nvidia/version"


def parse_acs_control(config: bytes) -> int | None:
    """Return the ACS control register in a config space.

    None without ACS, or if only the head was readable (not root).
    """
    at, seen = EXTENDED, 0
    while at >= EXTENDED and at + 8 <= len(config) and seen < EXTENDED_END // 8:
        (head,) = struct.unpack_from("<I", config, at)
        if head in (0, 0xFFFFFFFF):
            return None
        if head & 0xFFFF == ACS:
            return int(struct.unpack_from("<H", config, at + ACS_CONTROL)[0])
        at, seen = head >> 20, seen + 1
    return None


def read_pci_config(folder: str) -> bytes:
    """Return the config space of a device, or b"" if it is unreadable."""
    try:
        with open(os.path.join(folder, "config"), "rb") as stream:
            return stream.read(EXTENDED_END)
    except OSError:
        return b""


def list_bridges_above(folder: str) -> list[str]:
    """Return the folders of the bridges from the root down to a device."""
    parts = os.path.realpath(folder).split("/")
    return ["/".join(parts[: at + 1]) for at, one in enumerate(parts[:-1]) if ADDRESS.match(one)]


def describe_pci_path(folder: str, kind: str) -> PciPath:
    """Return the path of one device."""
    # Without the first one, the root port: its traffic is already at the root, and Linux enables ACS there with any
    # IOMMU.
    switched = list_bridges_above(folder)[1:]
    redirecting = [b for b in switched if (parse_acs_control(read_pci_config(b)) or 0) & REDIRECT]
    numa = read_stripped(os.path.join(folder, "numa_node"))
    return {
        "bus": os.path.basename(os.path.realpath(folder)),
        "kind": kind,
        "numa": int(numa) if re.match(r"-?\d+$", numa) else -1,
        "iommu": read_stripped(os.path.join(folder, "iommu_group/type")),
        "redirecting": [os.path.basename(bridge) for bridge in redirecting],
    }


def is_physical_machine() -> bool:
    """Return whether this is a physical machine."""
    return bool(run_command(["systemd-detect-virt", "--quiet"])[0] != 0)


def survey_pci_paths(base: str = PCI, rdma: str = RDMA) -> list[PciPath]:
    """Return the paths of all NVIDIA GPUs, and of the RDMA interfaces if there are GPUs."""
    gpus = [held["bus"] for held in list_accelerators(base) if held["vendor"] == "nvidia"]
    devices = sorted(os.listdir(rdma)) if gpus and os.path.isdir(rdma) else []
    found = [describe_pci_path(os.path.join(base, bus), "gpu") for bus in gpus]
    return found + [
        describe_pci_path(os.path.join(rdma, device, "device"), "rdma") for device in devices
    ]


def find_gpu_direct_mode(
    version: str = VERSION, modules: str = "/proc/modules", release: str = ""
) -> str:
    """Return the way from an RDMA interface to a GPU's memory.

    It is ``dma_buf``, ``nvidia_peermem``, or "" (host memory).

    dma_buf needs NVIDIA's open modules and Linux 5.12 (NVIDIA, GPUDirect RDMA guide). NCCL uses it since 2.12.
    """
    numbers = re.match(r"(\d+)\.(\d+)", release or os.uname().release)
    new = numbers is not None and (int(numbers.group(1)), int(numbers.group(2))) >= DMA_BUF_KERNEL
    if new and OPEN_MODULE in read_stripped(version):
        return "dma_buf"
    loaded = any(line.startswith("nvidia_peermem ") for line in read_stripped(modules).splitlines())
    return "nvidia_peermem" if loaded else ""
