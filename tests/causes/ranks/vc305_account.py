"""Cases of VC-305."""

from __future__ import annotations

from records import UBUNTU1

from fullmesh.verify.model import ClusterObservations


def refuse_rank(seen: ClusterObservations) -> None:
    """Let the ranks of a node fail to start, with a reason."""
    gloo = seen.nodes[UBUNTU1]["gloo"]
    gloo["ranks"]["1"] = {"events": [], "log": ""}
    gloo["ended"] = {
        "codes": {},
        "killed": [],
        "error": "/opt has mode 0700",
        "code": "VC-305",
        "fix": "chmod o+rx /opt",
    }


VERIFICATION = {
    "account may not run python": refuse_rank,
}
