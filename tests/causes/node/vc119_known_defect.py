"""Cases of VC-119."""

from __future__ import annotations

from verify_changes import facts

from fullmesh.verify.model import ClusterObservations


def install_defective_torch(seen: ClusterObservations) -> None:
    for name in seen.plan["nodes"]:
        facts(seen, name)["versions"]["torch"] = "2.7.0+cpu"


VERIFICATION = {
    "a known defect of torch": install_defective_torch,
}
