"""Cases of VC-501."""

from __future__ import annotations

from verify_changes import listeners

VERIFICATION = {
    "listener outside": listeners([["10.78.2.12", 40001]]),
}
