"""Cases of VC-204."""

from __future__ import annotations

from verify_changes import verdict

VERIFICATION = {
    "no route": verdict("no_route"),
}
