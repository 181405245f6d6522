"""Cases of VC-141."""

from __future__ import annotations

from verify_changes import on_the_way

from causes.faults import gpu

VERIFICATION = {
    "acs": on_the_way(redirecting=["0000:19:00.0"]),
}
FAULTS = (gpu("acs", "acs=0x1d"),)
