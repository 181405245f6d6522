"""Cases of VC-110."""

from __future__ import annotations

from verify_changes import facts

VERIFICATION = {
    "other mtu": lambda s: facts(s)["interface"].update(mtu=9000),
}
