"""Cases of DG-184."""

from __future__ import annotations

import copy

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, ends, node
from causes.faults import BARE, LINK_OUT, VICTIM, Fault, at, wall


def only_us(world: World) -> None:
    """What the probe sends from ubuntu1 vanishes, what the account of jobs sends does not."""
    links = node(world)["links"]
    opened = [copy.deepcopy(one) for one in links["links"] if one["node"] == EL][:3]
    ends("dropped")(world)
    links["as_job"] = {"account": "jobs", "uid": 1999, "tried": 0, "links": [], "past": opened}


CHANGES = {
    "the account of the probe alone": Change(UB, only_us),
}
FAULTS = (
    Fault(
        "root-account",
        BARE,
        (
            *at(VICTIM, "useradd -M -u 1999 jobber", "userdel jobber"),
            *wall("meta skuid 0 ip daddr $P_ADDR ct state new drop", "output"),
        ),
        expect=LINK_OUT,
        variables={"launchers_job_user": "jobber"},
    ),
)
