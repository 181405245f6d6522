"""Cases of DG-151."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_survey_part

CHANGES = {
    "selinux": Change(
        UB,
        set_survey_part(
            "selinux",
            {
                "mode": "enforcing",
                "denials": [{"command": "python3", "age": 3.0, "text": "avc: denied"}],
            },
        ),
    ),
}
