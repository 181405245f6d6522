"""Cases of DG-101."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import NEW, Change, dport, node, only_table, rule, shut
from causes.faults import BARE, LINK_IN, Fault, wall


def half(world: World) -> None:
    """The upper half of the range is shut."""
    shut()(world)
    for record in node(world, EL)["links"]["links"]:
        if (
            record["node"] == UB
            and record["kind"] in ("sample", "range")
            and record["port"] < 52000
        ):
            record.update(verdict="open")
    only_table(world)
    rule("filter", NEW, dport(52000, 54095), {"drop": None})(world)


CHANGES = {
    "half open": Change(UB, half),
}
FAULTS = (
    Fault(
        "range-half",
        BARE,
        wall("iifname eth1 tcp dport $MIDDLE-$LAST drop"),
        expect={**LINK_IN, "port": "{last}"},
    ),
)
