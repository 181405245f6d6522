"""Cases of VC-602."""

from __future__ import annotations

from verify_changes import nccl

VERIFICATION = {
    "nccl port": lambda s: nccl(s, port=40000),
}
