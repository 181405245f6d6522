"""Cases of VC-721."""

from __future__ import annotations

from verify_changes import two_networks

VERIFICATION = {
    "two networks": two_networks,
}
