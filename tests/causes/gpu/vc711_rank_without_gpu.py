"""Cases of VC-711."""

from __future__ import annotations

from verify_changes import wrong

VERIFICATION = {
    "no gpu": wrong("gpus", check="gpus", ranks=[1]),
}
