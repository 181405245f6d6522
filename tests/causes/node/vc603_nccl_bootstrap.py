"""Cases of VC-603."""

from __future__ import annotations

from verify_changes import nccl

VERIFICATION = {
    "nccl fails": lambda s: nccl(s, reason="refused", error="no socket interface"),
}
