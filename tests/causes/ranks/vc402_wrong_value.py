"""Cases of VC-402."""

from __future__ import annotations

from verify_changes import wrong

VERIFICATION = {
    "wrong sum": wrong("all_reduce"),
}
