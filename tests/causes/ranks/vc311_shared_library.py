"""Cases of VC-311."""

from __future__ import annotations

from verify_changes import stopped

VERIFICATION = {
    "library missing": stopped(
        "import", "failed", text="ImportError: libx.so.1: cannot open shared object file"
    ),
}
