"""Cases of HG-110."""

from __future__ import annotations

from hang_records import NO_STACK, without

JOB_CHANGES = {
    "nothing but records": (["HG-110"], "late_four", without(2, **NO_STACK)),
}
