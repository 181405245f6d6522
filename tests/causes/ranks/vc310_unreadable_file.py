"""Cases of VC-310."""

from __future__ import annotations

from verify_changes import stopped

VERIFICATION = {
    "file closed": stopped(
        "import", "failed", text="PermissionError: [Errno 13] Permission denied: 'x', at y:1"
    ),
}
