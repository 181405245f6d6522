"""Cases of VC-143."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from gpu_samples import rdma, survey
from records import UBUNTU1

from causes.faults import make_gpu_path_fault
from fullmesh.verify.model import ClusterObservations


def remove_gpudirect(seen: ClusterObservations) -> None:
    survey(seen, UBUNTU1)["gpus"].update(direct="")
    with TemporaryDirectory() as folder:
        survey(seen, UBUNTU1)["rdma"] = rdma(Path(folder))


VERIFICATION = {
    "no gpudirect": remove_gpudirect,
}
FAULTS = (make_gpu_path_fault("direct", "open=0"),)
