"""Cases of DG-182."""

from __future__ import annotations

import copy

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import REFUSED, Change, decided, node, together
from causes.faults import BARE, LINK_OUT, VICTIM, WHOLE, Fault, at, wall


def only_jobs(world: World) -> None:
    """What the account of jobs sends from ubuntu1 vanishes, what the probe sends does not."""
    links = node(world)["links"]
    shut_ones = [copy.deepcopy(one) for one in links["links"] if one["node"] == EL][:3]
    for one in shut_ones:
        one.update(verdict="dropped", reached="asked")
    links["as_job"] = {"account": "jobs", "uid": 1999, "tried": 4, "links": shut_ones}


CHANGES = {
    "the account of jobs": Change(UB, only_jobs),
    "the account of jobs, answers too": Change(
        UB, together(only_jobs, decided("answer", **REFUSED, uid=1000))
    ),
}
FAULTS = (
    Fault(
        "job-account",
        BARE,
        (
            *at(VICTIM, "useradd -M -u 1999 jobber", "userdel jobber"),
            *wall("meta skuid 1999 ip daddr $P_ADDR drop", "output"),
        ),
        expect={**LINK_OUT, "port": WHOLE},
        variables={"launchers_job_user": "jobber"},
    ),
)
