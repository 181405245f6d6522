"""Cases of VC-213."""

from __future__ import annotations

from verify_changes import no_sample

VERIFICATION = {
    "no port given": no_sample,
}
