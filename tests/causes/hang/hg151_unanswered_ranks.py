"""Cases of HG-151."""

from __future__ import annotations

from hang_records import UNASKED, remove_rank

JOB_CHANGES = {
    "a rank that is not asked": (["HG-151"], "late_four", remove_rank(2, **UNASKED)),
}
