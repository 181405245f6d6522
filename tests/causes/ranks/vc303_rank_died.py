"""Cases of VC-303."""

from __future__ import annotations

from verify_changes import stopped

VERIFICATION = {
    "segfault": stopped("all_reduce", "died"),
}
