# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""A node's GPUs and their driver, as gpu_facts and a survey return them."""

from __future__ import annotations

from typing import TypedDict


class FabricManager(TypedDict):
    """NVIDIA's fabric manager: its unit's state in systemd, and the program's version (empty if not installed)."""

    active: str
    version: str


class GpuCardBase(TypedDict):
    """A GPU as in ``nvidia-smi -q -x``. ``memory`` includes its unit."""

    name: str
    uuid: str
    memory: str


class GpuCard(GpuCardBase, total=False):
    """Properties that only some drivers and GPUs report.

    Texts are empty if nvidia-smi reports N/A.

    ``slowed``: the reason for reduced clocks. ``links``: NVLinks, of which ``links_down`` are inactive. ``link_gb_s``:
    the bandwidth of the active ones in one direction, GB/s.
    """

    bus: str
    persistence: str
    ecc_mode: str
    ecc: str
    ecc_volatile: int
    ecc_aggregate: int
    remap_failed: str
    remap_pending: str
    width: str
    width_most: str
    generation: int
    generation_most: int
    mig: str
    fabric: str
    memory_used: str
    compute_mode: str
    slowed: list[str]
    links: int
    links_down: int
    link_gb_s: float


class PciGpu(TypedDict):
    """A GPU on the PCI bus, with its driver, if any."""

    bus: str
    device: str
    driver: str


class AmdGpu(PciGpu):
    """A GPU of AMD's, as the driver amdgpu and the PCI bus describe it in sysfs.

    Attributes:
        name: "" if the driver does not know the product.
        uncorrectable: errors that ECC could not correct since the driver was loaded.
    """

    name: str
    uncorrectable: int


class PciDevices(TypedDict):
    """NVIDIA's devices on the bus: GPUs, and the number of NVSwitches."""

    gpus: list[PciGpu]
    switches: int


class GpuProcess(TypedDict):
    """A compute process on a GPU."""

    pid: int
    name: str


class SmiReport(TypedDict):
    """The report of ``nvidia-smi -q -x``."""

    driver: str
    cuda: str
    cards: list[GpuCard]
    processes: list[GpuProcess]


class NvLinks(TypedDict):
    """The NVLinks of a GPU: the speeds of active ones in GB/s, and the number of inactive ones."""

    gpu: int
    speeds: list[float]
    down: int


class SmiStatus(SmiReport):
    """``failed``: nvidia-smi is installed and does not work."""

    failed: bool


class SmiDetails(SmiStatus, total=False):
    """Details of the GPUs that are there. ``topology`` is from -> to -> NV18, PIX, PXB, PHB, NODE or SYS."""

    topology: dict[str, dict[str, str]]
    nvlinks: list[NvLinks]


class Xid(TypedDict):
    """An error report of the driver, and how often it came. ``bus`` is empty if the message names no GPU."""

    bus: str
    xid: int
    times: int
    text: str


class BuildTools(TypedDict):
    """The tools that DKMS needs: a compiler's path, the running kernel's headers."""

    compiler: str
    headers: bool


class GpuFacts(TypedDict):
    """The result of gpu_facts.

    ``kernel``: its release. ``loaded``: the driver's module. ``secure_boot``: None without EFI.
    """

    kernel: str
    container: bool
    pci: PciDevices
    smi: SmiDetails
    loaded: str
    nouveau: bool
    secure_boot: bool | None
    xids: list[Xid]
    tools: BuildTools
