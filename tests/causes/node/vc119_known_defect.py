"""Cases of VC-119."""

from __future__ import annotations

from verify_changes import facts

from fullmesh.verify.model import ClusterObservations


def nccl_with_a_defect(seen: ClusterObservations) -> None:
    for name in seen.plan["nodes"]:
        facts(seen, name)["versions"]["torch_nccl"] = "2.25.1"


VERIFICATION = {
    "a known defect of torch's own NCCL": nccl_with_a_defect,
}
