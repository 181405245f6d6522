"""Cases of VC-403."""

from __future__ import annotations

from verify_changes import stopped

VERIFICATION = {
    "barrier fails": stopped("barrier", "failed", text="RuntimeError"),
    "collective hangs": stopped("bandwidth", "hung"),
}
