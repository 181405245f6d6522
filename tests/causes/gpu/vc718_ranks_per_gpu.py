"""Cases of VC-718."""

from __future__ import annotations

from gpu_samples import Machine, smi
from records import EL1, UBUNTU1
from verify_changes import ON, change_machines, left_to_auto

from fullmesh.verify.model import ClusterObservations


def add_idle_gpus(seen: ClusterObservations) -> None:
    """Give each node four GPUs, and one rank from the time when it had one GPU."""
    change_machines(**{n: Machine(smi(count=4, **ON), bus=4) for n in (EL1, UBUNTU1)})(seen)
    left_to_auto(seen)


VERIFICATION = {
    "idle gpus": add_idle_gpus,
}
