"""Cases of VC-116."""

from __future__ import annotations

from verify_changes import change_smi, facts

VERIFICATION = {
    "other kernel": lambda s: facts(s).update(kernel="6.2.0"),
    "other zone": lambda s: facts(s)["software"].update(time_zone="Europe/Berlin"),
    "other cuda of the driver": change_smi(cuda_version="11.8"),
}
