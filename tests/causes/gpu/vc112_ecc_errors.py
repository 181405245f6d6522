"""Cases of VC-112."""

from __future__ import annotations

from verify_changes import swap

from causes.faults import gpu

VERIFICATION = {
    "ecc": swap(dram_uncorrectable="2"),
}
FAULTS = (gpu("ecc", "0.ecc_lost=2"),)
