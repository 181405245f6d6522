"""Accelerators on the PCI bus: those of AMD count if ROCm can compute on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.facts import accelerators

# From /sys/class/kfd/kfd/topology/nodes/N/properties. The targets are those that owners reported: a Strix Halo 110501
# (warpfront/hipfire#59), an MI300X 90402 (ROCm/rocm-cli#343). gfx1036 is the graphics of a Ryzen 7000.
STRIX_HALO, MI300X, RYZEN = 110501, 90402, 100306


class Bus:
    """A node's PCI bus and the GPUs that amdgpu shows to ROCm, as files."""

    def __init__(self, folder: Path) -> None:
        self.pci, self.kfd = folder / "pci", folder / "kfd"
        self.pci.mkdir()
        self.kfd.mkdir()
        # the CPU is a node, too
        self.show("gfx_target_version 0\nlocation_id 0\ndomain 0\n")

    def plug(self, bus: str, kind: str, vendor: str = "0x1002") -> None:
        here = self.pci / bus
        here.mkdir()
        for name, text in (("vendor", vendor), ("class", kind), ("device", "0x1586")):
            (here / name).write_text(text + "\n")

    def show(self, properties: str) -> None:
        here = self.kfd / str(len(list(self.kfd.iterdir())))
        here.mkdir()
        (here / "properties").write_text(properties)

    def compute(self, target: int, location: int, domain: int = 0) -> None:
        self.show(
            f"cpu_cores_count 0\nsimd_count 80\ngfx_target_version {target}\nvendor_id 4098\ndevice_id 5510\n"
            f"location_id {location}\ndomain {domain}\n"
        )

    def found(self) -> list[str]:
        devices = accelerators.list_accelerators(str(self.pci), str(self.kfd))
        return [f"{one['vendor']} {one['bus']}" for one in devices]


@pytest.fixture
def bus(tmp_path: Path) -> Bus:
    return Bus(tmp_path)


def test_a_strix_halo_is_an_accelerator_although_it_drives_a_display(bus: Bus) -> None:
    bus.plug("0000:c5:00.0", "0x030000")
    assert bus.found() == []
    bus.compute(STRIX_HALO, 0xC500)
    assert bus.found() == ["amd 0000:c5:00.0"]


def test_graphics_of_a_cpu_and_cards_of_other_vendors_do_not_count(bus: Bus) -> None:
    bus.plug("0000:0b:00.0", "0x030000")
    bus.compute(RYZEN, 0x0B00)
    bus.plug("0000:01:00.0", "0x030000", vendor="0x1a03")
    bus.compute(STRIX_HALO, 0x0100)
    assert bus.found() == []


def test_an_instinct_counts_with_and_without_a_driver(bus: Bus) -> None:
    bus.plug("0001:05:00.0", "0x120000")
    assert bus.found() == ["amd 0001:05:00.0"]
    bus.compute(MI300X, 0x0500, domain=1)
    assert bus.found() == ["amd 0001:05:00.0"]


def test_device_function_and_domain_are_part_of_the_address(bus: Bus) -> None:
    bus.plug("0002:41:1f.3", "0x030000")
    bus.compute(STRIX_HALO, 0x41FB, domain=2)
    assert bus.found() == ["amd 0002:41:1f.3"]


@pytest.mark.parametrize(
    "text",
    ["", "gfx_target_version 110501\n", "gfx_target_version x\nlocation_id -1\n", "\0\n \n"],
)
def test_incomplete_properties_name_no_gpu(bus: Bus, text: str) -> None:
    bus.show(text)
    assert accelerators.list_rocm_buses(str(bus.kfd)) == set()


def test_a_node_without_amdgpu_has_none(tmp_path: Path) -> None:
    assert accelerators.list_rocm_buses(str(tmp_path / "absent")) == set()
