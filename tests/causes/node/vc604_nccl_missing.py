"""Cases of VC-604."""

from __future__ import annotations

from verify_changes import nccl

VERIFICATION = {
    "nccl missing": lambda s: nccl(s, version="", reason="missing"),
}
