"""Cases of VC-308."""

from __future__ import annotations

from verify_changes import wrong

VERIFICATION = {
    "foreign key": wrong("store"),
    "foreign key at the rendezvous": wrong("rendezvous"),
}
