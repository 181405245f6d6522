"""Cases of DG-160."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, survey
from causes.faults import BARE, Fault, login_variable


def left_behind(world: World) -> None:
    """Of a job that somebody started by hand."""
    held = survey(world)["environment"]["values"]
    held["RANK"] = {"value": "0", "source": "/etc/environment"}


CHANGES = {
    "rank left behind": Change(UB, left_behind),
}
FAULTS = (Fault("rank-left", BARE, login_variable("RANK=0")),)
