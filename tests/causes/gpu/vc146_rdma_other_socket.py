"""Cases of VC-146."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from gpu_samples import rdma, survey
from records import UBUNTU1
from verify_changes import change_pci_path

from causes.faults import make_gpu_path_fault
from fullmesh.verify.model import ClusterObservations


def move_rdma_port(seen: ClusterObservations) -> None:
    change_pci_path(kind="rdma", numa=1)(seen)
    with TemporaryDirectory() as folder:
        survey(seen, UBUNTU1)["rdma"] = rdma(Path(folder))


VERIFICATION = {
    "rdma on the other socket": move_rdma_port,
}
FAULTS = (make_gpu_path_fault("socket", "*.numa=0", "rdma_numa=1"),)
