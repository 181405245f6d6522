"""Cases of VC-141."""

from __future__ import annotations

from verify_changes import change_pci_path

from causes.faults import make_gpu_fault

VERIFICATION = {
    "acs": change_pci_path(redirecting=["0000:19:00.0"]),
}
FAULTS = (make_gpu_fault("acs", "acs=0x1d"),)
