"""Cases of DG-138."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, node
from causes.faults import BARE, MASTER, Fault, on_the_way


def lossy(world: World) -> None:
    for record in node(world, EL)["links"]["links"]:
        record.update(lost=4, segments=60)


CHANGES = {
    "loss": Change(EL, lossy),
}
RECORDED = {"loss": UB}
FAULTS = (
    Fault(
        "loss",
        BARE,
        on_the_way("meta l4proto tcp numgen random mod 100 < 20 drop", "V_CABLE", "P_CABLE"),
        victim=MASTER,  # neither end is to blame: the first is named
        expect={"peer": "{peer}", "direction": "{victim} <-> {peer}"},
    ),
)
