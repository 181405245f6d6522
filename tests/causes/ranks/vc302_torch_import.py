"""Cases of VC-302."""

from __future__ import annotations

from verify_changes import stopped

VERIFICATION = {
    "no torch": stopped("import", "failed", text="ModuleNotFoundError: torch"),
}
