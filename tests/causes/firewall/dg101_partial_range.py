"""Cases of DG-101."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import (
    NEW,
    Change,
    add_rule,
    block_links,
    get_node,
    match_port,
    replace_firewalld,
)
from causes.faults import BARE, LINK_IN, Fault, add_firewall


def block_upper_half(world: World) -> None:
    """Block the upper half of the range."""
    block_links()(world)
    for record in get_node(world, EL)["links"]["links"]:
        if (
            record["node"] == UB
            and record["kind"] in ("sample", "range")
            and record["port"] < 52000
        ):
            record.update(verdict="open")
    replace_firewalld(world)
    add_rule("filter", NEW, match_port(52000, 54095), {"drop": None})(world)


CHANGES = {
    "half open": Change(UB, block_upper_half),
}
FAULTS = (
    Fault(
        "range-half",
        BARE,
        add_firewall("iifname eth1 tcp dport $MIDDLE-$LAST drop"),
        expect={**LINK_IN, "port": "{last}"},
    ),
)
