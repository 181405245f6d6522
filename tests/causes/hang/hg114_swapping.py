"""Cases of HG-114."""

from __future__ import annotations

from hang_records import swapping

JOB_CHANGES = {
    "a rank's memory is in swap": (["HG-114"], "late_data", swapping),
}
