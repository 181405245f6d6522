"""Cases of DG-142."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, event, put

CHANGES = {
    "neighbours": Change(
        UB,
        put(
            "kernel_log", event("neighbour table", "neighbour: arp_cache: neighbor table overflow!")
        ),
    ),
}
