"""Cases of DG-199."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Break, Change, combine, get_node, get_survey
from causes.rdma import set_results


def set_rates(**odd: float) -> Break:
    """Set all rates of two rails to 92 Gbit/s, except for the given ones (source and rail)."""

    def change(world: World) -> None:
        for name, peer in ((EL, UB), (UB, EL)):
            get_node(world, name)["links"]["rdma"]["rates"] = [
                {
                    "node": peer,
                    "device": f"rxe{rail}",
                    "peer_device": f"rxe{rail}",
                    "mbit_s": odd.get(f"{name}_{rail}", 92_000.0),
                }
                for rail in (1, 2)
            ]

    return combine(set_results(), change)


def halve_lanes(world: World) -> None:
    """Limit the PCIe link of one port to 63 Gbit/s, which is also the most that the NIC supports."""
    link = {"link_width": "2", "link_speed": "32.0 GT/s PCIe"}
    get_survey(world, UB)["rdma"][1]["pcie"] = {
        f"{which}_{key}": value for key, value in link.items() for which in ("current", "max")
    }


CHANGES = {
    "13 Gbit/s of 100": Change(EL, set_rates(el1_2=13_000.0)),
    "less than half of what PCIe carries": Change(
        UB, combine(set_rates(el1_2=60_000.0, ubuntu1_2=30_000.0), halve_lanes)
    ),
}
