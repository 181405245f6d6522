"""Cases of VC-723."""

from __future__ import annotations

from gpu_samples import survey
from records import UBUNTU1
from verify_changes import HOSTS_MEMORY, infiniband

from fullmesh.verify.model import ClusterObservations


def disable_gpudirect(seen: ClusterObservations) -> None:
    infiniband(HOSTS_MEMORY)(seen)
    survey(seen, UBUNTU1)["gpus"]["direct"] = "dma_buf"


VERIFICATION = {
    "no gpudirect used": disable_gpudirect,
}
