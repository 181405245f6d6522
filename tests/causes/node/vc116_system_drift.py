"""Cases of VC-116."""

from __future__ import annotations

from verify_changes import facts, swap

VERIFICATION = {
    "other kernel": lambda s: facts(s).update(kernel="6.2.0"),
    "other zone": lambda s: facts(s)["software"].update(time_zone="Europe/Berlin"),
    "other cuda of the driver": swap(cuda_version="11.8"),
}
