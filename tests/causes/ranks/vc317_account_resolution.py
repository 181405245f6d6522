"""Cases of VC-317."""

from __future__ import annotations

from records import EL1

from causes.changes import started

VERIFICATION = {
    "name unknown to the account": started(("resolve", EL1, "Name or service not known")),
}
