"""Cases of VC-724."""

from __future__ import annotations

from verify_changes import stopped

VERIFICATION = {
    "gpu raises": stopped(
        "gpus", "failed", text="RuntimeError: CUDA driver version is insufficient, at x:1"
    ),
}
