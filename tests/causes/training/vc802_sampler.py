"""Cases of VC-802."""

from __future__ import annotations

from verify_changes import wrong

VERIFICATION = {
    "sampler": wrong("ddp", check="sampler"),
}
