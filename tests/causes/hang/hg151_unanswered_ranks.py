"""Cases of HG-151."""

from __future__ import annotations

from hang_records import UNASKED, without

JOB_CHANGES = {
    "a rank that is not asked": (["HG-151"], "late_four", without(2, **UNASKED)),
}
