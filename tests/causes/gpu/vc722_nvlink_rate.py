"""Cases of VC-722."""

from __future__ import annotations

from verify_changes import nvlinks_unused

VERIFICATION = {
    "nvlinks unused": nvlinks_unused,
}
