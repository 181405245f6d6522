"""Cases of DG-203."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, node


def no_probe(world: World) -> None:
    node(world)["links"] = {"failed": True, "msg": "no space left"}


CHANGES = {
    "no probe": Change(UB, no_probe),
}
