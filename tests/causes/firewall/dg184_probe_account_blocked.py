"""Cases of DG-184."""

from __future__ import annotations

import copy

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, block_reply_links, get_node
from causes.faults import BARE, LINK_OUT, VICTIM, Fault, add_firewall, make_step


def block_probe_account(world: World) -> None:
    """Drop packets of the probe on ubuntu1, but not those of the jobs' account."""
    links = get_node(world)["links"]
    open_links = [copy.deepcopy(one) for one in links["links"] if one["node"] == EL][:3]
    block_reply_links("dropped")(world)
    links["as_job"] = {"account": "jobs", "uid": 1999, "tried": 0, "links": [], "past": open_links}


CHANGES = {
    "the account of the probe alone": Change(UB, block_probe_account),
}
FAULTS = (
    Fault(
        "root-account",
        BARE,
        (
            *make_step(VICTIM, "useradd -M -u 1999 jobber", "userdel jobber"),
            *add_firewall("meta skuid 0 ip daddr $P_ADDR ct state new drop", "output"),
        ),
        expect=LINK_OUT,
        variables={"launchers_job_user": "jobber"},
    ),
)
