"""The cables of two rails are swapped

On the interface of a rail, an interface of another rail answers, and the right one does not. The
cables of two ports are swapped, or fullmesh_rails names the interfaces in the wrong order. With
three or more nodes, the finding names the node that is connected otherwise than the rest. With two
nodes, it can be either.

**Prove:** ping -c 2 ff02::1%INTERFACE && ip neigh show dev INTERFACE

**Fix:** Swap the cables at that node, or correct its interfaces in fullmesh_rails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_links
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.rdma_pairs import find_swapped_nodes

CAUSE = Cause(
    "VC-242",
    __doc__,
    # found by VC-231
    weight=648,
    explains=(Explains(("VC-223", "VC-224", "VC-227"), has_same_links),),
    cases=(CauseCase("rail-swapped", "the cables of two rails are swapped", by=RECORDED),),
)


class WrongCable(NamedTuple):
    """The interface of a rail, and the one that answers on it. The latter's rail is "" if it belongs to none."""

    rail: str
    node: str
    nic: str
    other_rail: str
    other: str
    other_nic: str

    def turn(self) -> WrongCable:
        """Return the cable as the other end describes it."""
        return WrongCable(*self[3:], *self[:3])


def group_cables(wrong: Sequence[WrongCable]) -> list[list[WrongCable]]:
    """Group cables that belong to the same rails."""
    groups: list[list[WrongCable]] = []
    for cable in wrong:
        rails = {cable.rail, cable.other_rail} - {""}
        near = [
            group for group in groups if any(rails & {one.rail, one.other_rail} for one in group)
        ]
        groups = [group for group in groups if group not in near]
        groups.append([one for group in near for one in group] + [cable])
    return groups


def fold_wrong_cables(
    wrong: Sequence[WrongCable],
) -> Iterator[tuple[Finding, Sequence[WrongCable]]]:
    """Make one finding for all cables of the same rails. Return it with these cables."""
    for cables in group_cables(wrong):
        rails = sorted({name for one in cables for name in (one.rail, one.other_rail) if name})
        names, certain = find_swapped_nodes({frozenset((one.node, one.other)) for one in cables})
        if len(rails) > 1:
            turned = [one if one.node == names[0] else one.turn() for one in cables]
            shown = [*dict.fromkeys(one for one in turned if one.node == names[0])]
            nodes = join_names(names) if certain else " or ".join(names)
            cause = f"the cables of {nodes} are swapped"
        else:  # the other interface belongs to no rail
            shown, nodes = [cables[0]], cables[0].node
            cause = f"the cable of {nodes} leads to {cables[0].other_nic} of {cables[0].other}"
        ports = join_names(sorted({one.nic for one in shown}))
        node = shown[0].node
        others = {name for one in cables for name in (one.node, one.other)} - {node}
        finding = Finding(
            "VC-242",
            "L2",
            f"{join_names(rails)}: {cause}",
            node=node,
            peer=join_names(sorted(others)),
            seen=join_names(
                [f"{one.nic} of {one.node} reaches {one.other_nic} of {one.other}" for one in shown]
            ),
            expected="each interface reaches those of its own rail",
            fix=f"swap the cables of {ports} at {nodes}, or correct the interfaces in fullmesh_rails",
        )
        yield finding, cables
