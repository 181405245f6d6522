"""Cases of DG-142."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, make_events, set_survey_part

CHANGES = {
    "neighbours": Change(
        UB,
        set_survey_part(
            "kernel_log",
            make_events("neighbour table", "neighbour: arp_cache: neighbor table overflow!"),
        ),
    ),
}
