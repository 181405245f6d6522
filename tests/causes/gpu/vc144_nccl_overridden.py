"""Cases of VC-144."""

from __future__ import annotations

from gpu_samples import survey
from records import UBUNTU1

from fullmesh.verify.model import ClusterObservations


def override_nccl(seen: ClusterObservations) -> None:
    row = {"value": "Ring", "source": "/etc/environment"}
    survey(seen, UBUNTU1)["environment"]["values"]["NCCL_ALGO"] = row


VERIFICATION = {
    "nccl tuned": override_nccl,
}
