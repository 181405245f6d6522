"""Cases of VC-719."""

from __future__ import annotations

from verify_changes import no_driver

VERIFICATION = {
    "no driver": no_driver,
}
