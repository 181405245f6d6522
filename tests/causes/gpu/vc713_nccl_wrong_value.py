"""Cases of VC-713."""

from __future__ import annotations

from verify_changes import wrong

VERIFICATION = {
    "nccl sums wrong": wrong("nccl_sizes", check="values"),
}
