"""Cases of VC-806."""

from __future__ import annotations

from verify_changes import wrong

VERIFICATION = {
    "groups": wrong("subgroups", check="reference"),
}
