"""Cases of VC-401."""

from __future__ import annotations

from verify_changes import stopped

VERIFICATION = {
    "gloo fails": stopped("init", "failed", text="connectFullMesh failed"),
    "gloo hangs": stopped("init", "hung"),
}
