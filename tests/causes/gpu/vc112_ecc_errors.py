"""Cases of VC-112."""

from __future__ import annotations

from gpu_samples import Machine
from verify_changes import change_machines, change_smi

from causes.faults import make_gpu_fault

VERIFICATION = {
    "ecc": change_smi(dram_uncorrectable="2"),
    "ecc of AMD": change_machines(el1=Machine(amd=(0, 0)), ubuntu1=Machine(amd=(0, 2))),
}
FAULTS = (make_gpu_fault("ecc", "0.ecc_lost=2"),)
