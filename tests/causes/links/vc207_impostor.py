"""Cases of VC-207."""

from __future__ import annotations

from verify_changes import verdict

VERIFICATION = {
    "stranger": verdict("someone_else"),
}
