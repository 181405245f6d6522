"""Cases of HG-109."""

from __future__ import annotations

from hang_records import native

JOB_CHANGES = {
    "garbage is collected": (["HG-109"], "late_data", native(1, functions=["gc_collect_main"])),
}
