"""Cases of VC-808."""

from __future__ import annotations

from verify_changes import stopped

VERIFICATION = {
    "training hangs": stopped("subgroups", "hung"),
    "training fails": stopped("fsdp", "failed", text="RuntimeError"),
}
