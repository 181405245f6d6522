"""Cases of VC-205."""

from __future__ import annotations

from verify_changes import verdict

VERIFICATION = {
    "cut off": verdict("reset"),
}
