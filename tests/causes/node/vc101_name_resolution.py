"""Cases of VC-101."""

from __future__ import annotations

from verify_changes import facts

VERIFICATION = {
    "stale name": lambda s: facts(s)["names"]["plan"].update(el1=["10.9.9.9"]),
    "unknown name": lambda s: facts(s)["names"]["plan"].update(el1=[]),
    "silent name server": lambda s: facts(s)["names"]["plan"].update(el1=None),
}
