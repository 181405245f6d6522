"""Cases of VC-801."""

from __future__ import annotations

from verify_changes import wrong

VERIFICATION = {
    "other seed": wrong("ddp", check="start"),
}
