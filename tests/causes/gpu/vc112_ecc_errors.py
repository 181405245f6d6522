"""Cases of VC-112."""

from __future__ import annotations

from verify_changes import change_smi

from causes.faults import make_gpu_fault

VERIFICATION = {
    "ecc": change_smi(dram_uncorrectable="2"),
}
FAULTS = (make_gpu_fault("ecc", "0.ecc_lost=2"),)
