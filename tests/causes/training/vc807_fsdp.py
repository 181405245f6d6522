"""Cases of VC-807."""

from __future__ import annotations

from verify_changes import wrong

VERIFICATION = {
    "fsdp": wrong("fsdp", check="sharding"),
}
