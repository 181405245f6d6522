"""Cases of HG-110."""

from __future__ import annotations

from hang_records import NO_STACK, remove_rank

JOB_CHANGES = {
    "nothing but records": (["HG-110"], "late_four", remove_rank(2, **NO_STACK)),
}
