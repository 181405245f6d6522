"""Cases of DG-196."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import only_table, rule, survey, together
from causes.rdma import RETRIES, make_try, tried, warn

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


def is_soft(world: World) -> None:
    """Soft-RoCE has no PCI device, so no vendor, and the other node has no packet filter."""
    survey(world, EL)["nft"] = {"chains": [], "rules": [], "sets": [], "cut": 0}
    survey(world, EL).pop("firewalld")
    for name in (EL, UB):
        for port in survey(world, name)["rdma"]:
            port["vendor"] = ""


LOST = make_try(
    EL,
    1,
    own={"step": "send", "error": RETRIES, "count": 0},
    peer={"step": "receive", "count": 0},
)
BACK = make_try(UB, 1, own={"step": "send", "error": RETRIES, "count": 0}, peer={"count": 1})
CHANGES = {
    "UDP 4791": warn(
        UB,
        together(tried((EL, LOST), (UB, BACK)), is_soft, only_table, rule("guard", *DROP)),
    ),
}
