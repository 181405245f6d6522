"""Cases of VC-502."""

from __future__ import annotations

from verify_changes import listeners

VERIFICATION = {
    "listener on lo": listeners([["127.0.0.1", 50001]]),
}
