"""Cases of VC-210."""

from __future__ import annotations

from verify_changes import open_outside

VERIFICATION = {
    "outside port": lambda s: (object.__setattr__(s, "mode", "peers_only"), open_outside(s)),
}
