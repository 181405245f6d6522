"""Cases of VC-719."""

from __future__ import annotations

from verify_changes import hide_amd_gpus, remove_driver

VERIFICATION = {
    "no driver": remove_driver,
    "torch for ROCm": hide_amd_gpus,
}
