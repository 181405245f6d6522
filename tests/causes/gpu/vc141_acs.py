"""Cases of VC-141."""

from __future__ import annotations

from verify_changes import change_pci_path

from causes.faults import gpu

VERIFICATION = {
    "acs": change_pci_path(redirecting=["0000:19:00.0"]),
}
FAULTS = (gpu("acs", "acs=0x1d"),)
