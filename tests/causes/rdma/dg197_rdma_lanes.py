"""Cases of DG-197."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, combine, get_survey
from causes.rdma import add_rails


def halve_lanes(world: World) -> None:
    """Give a NIC for 16 lanes of generation 5 only 2 lanes. The peer's NIC has all lanes of its slot."""
    first, second = get_survey(world, UB)["rdma"]
    first["pcie"] = {
        "current_link_width": "2",
        "max_link_width": "16",
        "current_link_speed": "32.0 GT/s PCIe",
        "max_link_speed": "32.0 GT/s PCIe",
    }
    second["pcie"] = {**first["pcie"], "current_link_width": "8"}


CHANGES = {"lanes of a NIC": Change(UB, combine(add_rails, halve_lanes))}
