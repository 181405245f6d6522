"""Cases of DG-182."""

from __future__ import annotations

import copy

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import REFUSED, Change, change_route, combine, get_node
from causes.faults import BARE, LINK_OUT, VICTIM, WHOLE, Fault, add_firewall, make_step


def block_job_account(world: World) -> None:
    """Drop packets of the jobs' account on ubuntu1, but not those of the probe."""
    links = get_node(world)["links"]
    blocked_links = [copy.deepcopy(one) for one in links["links"] if one["node"] == EL][:3]
    for one in blocked_links:
        one.update(verdict="dropped", reached="asked")
    links["as_job"] = {"account": "jobs", "uid": 1999, "tried": 4, "links": blocked_links}


CHANGES = {
    "the account of jobs": Change(UB, block_job_account),
    "the account of jobs, answers too": Change(
        UB, combine(block_job_account, change_route("answer", **REFUSED, uid=1000))
    ),
}
FAULTS = (
    Fault(
        "job-account",
        BARE,
        (
            *make_step(VICTIM, "useradd -M -u 1999 jobber", "userdel jobber"),
            *add_firewall("meta skuid 1999 ip daddr $P_ADDR drop", "output"),
        ),
        expect={**LINK_OUT, "port": WHOLE},
        variables={"launchers_job_user": "jobber"},
    ),
)
