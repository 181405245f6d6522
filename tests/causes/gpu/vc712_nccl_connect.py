"""Cases of VC-712."""

from __future__ import annotations

from verify_changes import stopped

VERIFICATION = {
    "nccl aborts": stopped("nccl", "died"),
    "nccl hangs": stopped("nccl_sizes", "hung"),
}
