"""Cases of VC-118."""

from __future__ import annotations

from verify_changes import facts

from fullmesh.verify.model import ClusterObservations


def two_nccls(seen: ClusterObservations) -> None:
    for name in seen.plan["nodes"]:
        facts(seen, name)["versions"]["torch_nccl"] = "2.29.7"


VERIFICATION = {
    "two nccls": two_nccls,
}
