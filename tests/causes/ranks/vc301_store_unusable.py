"""Cases of VC-301."""

from __future__ import annotations

from verify_changes import stopped

VERIFICATION = {
    "store away": stopped("store", "failed", text="DistNetworkError: timed out"),
    "rendezvous away": stopped("rendezvous", "failed", text="timed out"),
}
