"""Cases of HG-123."""

from __future__ import annotations

from hang_records import dtype

JOB_CHANGES = {
    "other types": (["HG-123"], "network", dtype),
}
