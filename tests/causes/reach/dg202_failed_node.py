"""Cases of DG-202."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change
from causes.faults import BARE, Fault


def remove_python(world: World) -> None:
    world["nodes"][UB] = {"node": {"failed": True, "msg": "python3: not found"}}


CHANGES = {
    "no python": Change(UB, remove_python),
}
FAULTS = (
    Fault("no-python", BARE, (), variables={"ansible_python_interpreter": "/opt/none/bin/python3"}),
)
