"""Cases of DG-197."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, survey, together
from causes.rdma import add_rails


def halve_lanes(world: World) -> None:
    """A NIC for 16 lanes of the fifth generation got 2; the other one has all that its slot gives."""
    first, second = survey(world, UB)["rdma"]
    first["pcie"] = {
        "current_link_width": "2",
        "max_link_width": "16",
        "current_link_speed": "32.0 GT/s PCIe",
        "max_link_speed": "32.0 GT/s PCIe",
    }
    second["pcie"] = {**first["pcie"], "current_link_width": "8"}


CHANGES = {"lanes of a NIC": Change(UB, together(add_rails, halve_lanes))}
