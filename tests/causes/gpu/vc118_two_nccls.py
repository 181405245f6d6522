"""Cases of VC-118."""

from __future__ import annotations

from verify_changes import facts

from fullmesh.verify.model import ClusterObservations


def add_second_nccl(seen: ClusterObservations) -> None:
    for name in seen.plan["nodes"]:
        facts(seen, name)["versions"]["torch_nccl"] = "2.29.7"


VERIFICATION = {
    "two nccls": add_second_nccl,
}
