"""Cases of DG-160."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, get_survey
from causes.faults import BARE, Fault, set_login_variable


def leave_rank(world: World) -> None:
    """Leave a variable of a job that a user started."""
    held = get_survey(world)["environment"]["values"]
    held["RANK"] = {"value": "0", "source": "/etc/environment"}


CHANGES = {
    "rank left behind": Change(UB, leave_rank),
}
FAULTS = (Fault("rank-left", BARE, set_login_variable("RANK=0")),)
