"""Cases of HG-134."""

from __future__ import annotations

from hang_records import lost_alone

JOB_CHANGES = {
    "a connection lost, nobody knows why": (["HG-134", "HG-151"], "aborted", lost_alone),
}
