"""Cases of VC-309."""

from __future__ import annotations

from typing import cast

from records import UBUNTU1

from fullmesh.observed.ranks import CollectedRanks
from fullmesh.verify import rank_ends
from fullmesh.verify.model import ClusterObservations


def lose_node(seen: ClusterObservations) -> None:
    """Lose the connection to a node while its rank runs."""
    lost = rank_ends.read_missing_answer(
        {"unreachable": True, "msg": "[AK-102] It was silent"}, [1]
    )
    seen.nodes[UBUNTU1]["gloo"] = cast("CollectedRanks", lost)


VERIFICATION = {
    "connection lost": lose_node,
}
