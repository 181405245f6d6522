"""Cases of DG-196."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import add_rule, combine, get_survey, replace_firewalld
from causes.rdma import RETRIES, expect_warning, make_try, set_results

DROP = (
    {
        "match": {
            "op": "==",
            "left": {"payload": {"protocol": "udp", "field": "dport"}},
            "right": 4791,
        }
    },
    {"drop": None},
)


def use_soft_roce(world: World) -> None:
    """Use soft-RoCE, which has no PCI device and no vendor, with a peer without a packet filter."""
    get_survey(world, EL)["nft"] = {"chains": [], "rules": [], "sets": [], "cut": 0}
    get_survey(world, EL).pop("firewalld")
    for name in (EL, UB):
        for port in get_survey(world, name)["rdma"]:
            port["vendor"] = ""


LOST = make_try(
    EL,
    1,
    own={"step": "send", "error": RETRIES, "count": 0},
    peer={"step": "receive", "count": 0},
)
BACK = make_try(UB, 1, own={"step": "send", "error": RETRIES, "count": 0}, peer={"count": 1})
CHANGES = {
    "UDP 4791": expect_warning(
        UB,
        combine(
            set_results((EL, LOST), (UB, BACK)),
            use_soft_roce,
            replace_firewalld,
            add_rule("guard", *DROP),
        ),
    ),
}
