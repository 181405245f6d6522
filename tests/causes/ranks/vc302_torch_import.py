"""Cases of VC-302."""

from __future__ import annotations

from verify_changes import stopped

from causes.changes import started

VERIFICATION = {
    "part of torch missing": started(("import", "/opt/fullmesh/torch/version.py", "no such file")),
    "another torch": started(
        ("import", "/srv/torch/version.py", "no such file", "/etc/environment:3")
    ),
    "no torch": stopped("import", "failed", text="ModuleNotFoundError: torch"),
}
