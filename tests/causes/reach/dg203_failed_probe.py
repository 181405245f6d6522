"""Cases of DG-203."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, get_node


def fail_probe(world: World) -> None:
    get_node(world)["links"] = {"failed": True, "msg": "no space left"}


CHANGES = {
    "no probe": Change(UB, fail_probe),
}
