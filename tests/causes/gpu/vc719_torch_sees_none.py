"""Cases of VC-719."""

from __future__ import annotations

from verify_changes import remove_driver

VERIFICATION = {
    "no driver": remove_driver,
}
