"""Cases of DG-139."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, get_node
from causes.faults import BARE, LINK_OUT, OUTSIDE, Fault, make_step


def slow_down(world: World) -> None:
    rate = {"bytes": 100000, "seconds": 1.0, "complete": False, "lost": 0}
    get_node(world, EL)["links"]["bandwidth"] = [{**rate, "node": UB, "mbit_s": 9000.0}]
    get_node(world, UB)["links"]["bandwidth"] = [{**rate, "node": EL, "mbit_s": 8.1}]


CHANGES = {
    "slow": Change(UB, slow_down),
}
FAULTS = (
    Fault(
        "slow",
        BARE,
        make_step(
            OUTSIDE,  # a queue on the node itself gives DG-191
            "tc qdisc add dev $P_CABLE root tbf rate 10mbit burst 32kbit limit 4mb",
            "tc qdisc del dev $P_CABLE root",
        ),
        expect=LINK_OUT,
    ),
)
