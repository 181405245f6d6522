"""Cases of DG-151."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, put

CHANGES = {
    "selinux": Change(
        UB,
        put(
            "selinux",
            {
                "mode": "enforcing",
                "denials": [{"command": "python3", "age": 3.0, "text": "avc: denied"}],
            },
        ),
    ),
}
