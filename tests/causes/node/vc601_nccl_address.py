"""Cases of VC-601."""

from __future__ import annotations

from verify_changes import nccl

VERIFICATION = {
    "nccl address": lambda s: nccl(s, address="172.17.0.1"),
}
