"""Cases of VC-112."""

from __future__ import annotations

from verify_changes import change_smi

from causes.faults import gpu

VERIFICATION = {
    "ecc": change_smi(dram_uncorrectable="2"),
}
FAULTS = (gpu("ecc", "0.ecc_lost=2"),)
