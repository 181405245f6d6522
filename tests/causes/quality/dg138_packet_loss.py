"""Cases of DG-138."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, get_node
from causes.faults import BARE, MASTER, Fault, add_rule_between


def lose_packets(world: World) -> None:
    for record in get_node(world, EL)["links"]["links"]:
        record.update(lost=4, segments=60)


CHANGES = {
    "loss": Change(EL, lose_packets),
}
RECORDED = {"loss": UB}
FAULTS = (
    Fault(
        "loss",
        BARE,
        add_rule_between("meta l4proto tcp numgen random mod 100 < 20 drop", "V_CABLE", "P_CABLE"),
        victim=MASTER,  # if both ends may be the cause, the finding names the first
        expect={"peer": "{peer}", "direction": "{victim} <-> {peer}"},
    ),
)
