"""HG-165: jobs that show it."""

from __future__ import annotations

import hang_records

JOB_CHANGES = {
    "an address with another entry in the GID table": (
        ["HG-165"],
        "network",
        hang_records.gid_moved,
    ),
}
