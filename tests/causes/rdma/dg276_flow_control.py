"""Cases of DG-276."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, combine, get_survey
from causes.rdma import add_rails


def omit_pfc(world: World) -> None:
    """Protect priority 3 on one node, and none on the other. The third value is not shown by both drivers."""
    for name, pfc in ((EL, "3"), (UB, "none")):
        first, second = get_survey(world, name)["rdma"]
        first["flow_control"] = {"pfc": pfc, "dscp": "26 -> 3"}
        second["flow_control"] = {"pfc": "3"} if name == EL else {}


CHANGES = {"PFC of one node": Change(UB, combine(add_rails, omit_pfc))}
