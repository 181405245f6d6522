"""Cases of VC-804."""

from __future__ import annotations

from verify_changes import wrong

VERIFICATION = {
    "not as alone": wrong("ddp", check="reference"),
}
