"""The ways of GPUs and RDMA cards through PCIe, read from a sysfs tree made after the kernel's and PCIe's documents."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.survey import pci_paths

from fullmesh import contract
from fullmesh.observed.survey import PciPath

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12"


def config(*capabilities: tuple[int, int], size: int = 4096) -> bytes:
    """A config space with extended capabilities (id, word at offset 6), each 16 bytes behind the one before."""
    space = bytearray(size)
    for number, (name, control) in enumerate(capabilities):
        at = 0x100 + 16 * number
        follows = at + 16 if number + 1 < len(capabilities) else 0
        struct.pack_into("<I", space, at, name | 1 << 16 | follows << 20)
        struct.pack_into("<H", space, at + 6, control)
    return bytes(space)


AER, ACS = 0x0001, 0x000D


@pytest.mark.parametrize(
    ("space", "control"),
    [
        (config((AER, 0), (ACS, 0x1D)), 0x1D),
        (config((ACS, 0)), 0),
        (config((AER, 0)), None),
        (config(), None),
        (config()[:64], None),  # what anybody but root may read
        (b"", None),
        (config((AER, 0))[:0x100] + b"\xff" * 64, None),  # a device that is gone
    ],
)
def test_the_acs_control_register(space: bytes, control: int | None) -> None:
    assert pci_paths.parse_acs_control(space) == control


def test_a_circular_list_ends() -> None:
    space = bytearray(config((AER, 0)))
    struct.pack_into("<I", space, 0x100, AER | 1 << 16 | 0x100 << 20)
    assert pci_paths.parse_acs_control(bytes(space)) is None


def device(folder: Path, vendor: str, kind: str, iommu: str = "", numa: int = 0) -> None:
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "class").write_text(kind + "\n")
    (folder / "device").write_text("0x2330\n")
    (folder / "numa_node").write_text(f"{numa}\n")
    if iommu:
        (folder / "iommu_group").mkdir()
        (folder / "iommu_group/type").write_text(iommu + "\n")


def test_gpus_and_rdma_nics_with_their_upstream_ports(tmp_path: Path) -> None:
    root = tmp_path / "devices/pci0000:17"
    port = root / "0000:17:01.0"
    switch = port / "0000:18:00.0/0000:19:00.0"
    device(switch / "0000:1b:00.0", "0x10de", "0x030200", "DMA-FQ", 1)
    device(switch / "0000:1c:00.0", "0x15b3", "0x020000", "identity")
    device(root / "0000:17:05.0", "0x1af4", "0x020000")
    # the root port sends nothing on a detour; source validation alone does not either
    (port / "config").write_bytes(config((ACS, 0x1D)))
    (port / "0000:18:00.0/config").write_bytes(config((ACS, 0x01)))
    (switch / "config").write_bytes(config((AER, 0), (ACS, 0x1D)))
    bus = tmp_path / "bus"
    bus.mkdir()
    for one in (switch / "0000:1b:00.0", switch / "0000:1c:00.0", root / "0000:17:05.0"):
        (bus / one.name).symlink_to(one)
    card = tmp_path / "infiniband/mlx5_0"
    card.mkdir(parents=True)
    (card / "device").symlink_to(switch / "0000:1c:00.0")
    found = pci_paths.survey_pci_paths(str(bus), str(card.parent))
    above = ["0000:19:00.0"]
    assert found == [
        {"bus": "0000:1b:00.0", "kind": "gpu", "numa": 1, "iommu": "DMA-FQ", "redirecting": above},
        {
            "bus": "0000:1c:00.0",
            "kind": "rdma",
            "numa": 0,
            "iommu": "identity",
            "redirecting": above,
        },
    ]
    assert [contract.convert_value(PciPath, one) for one in found] == found


def test_a_machine_without_gpus_is_not_looked_at_for_rdma(tmp_path: Path) -> None:
    assert pci_paths.survey_pci_paths(str(tmp_path), str(tmp_path)) == []
    assert pci_paths.survey_pci_paths(str(tmp_path / "none"), str(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("version", "modules", "release", "way"),
    [
        (OPEN, "nvidia 1 0 - Live 0x0", "6.8.0-45-generic", "dma_buf"),
        (OPEN, "", "5.12.0", "dma_buf"),
        (OPEN, "", "5.4.0-150-generic", ""),
        (CLOSED, "", "6.8.0", ""),
        (CLOSED, "nvidia_peermem 16384 0 - Live 0x0", "5.4.0", "nvidia_peermem"),
        ("", "", "6.8.0", ""),
    ],
)
def test_how_rdma_reaches_a_gpu(
    tmp_path: Path, version: str, modules: str, release: str, way: str
) -> None:
    for name, text in (("version", version), ("modules", modules)):
        (tmp_path / name).write_text(text + "\n")
    found = pci_paths.find_gpu_direct_mode(
        str(tmp_path / "version"), str(tmp_path / "modules"), release
    )
    assert found == way
