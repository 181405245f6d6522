"""Cases of DG-170."""

from __future__ import annotations

from boot_changes import kept, unit
from records import UBUNTU1 as UB

from causes.changes import Break, Change, together


def limits(now: str, later: str, source: str = "/etc/systemd/system.conf.d/memlock.conf") -> Break:
    return together(
        kept("limits", {"DefaultLimitMEMLOCK": now}),
        kept("limits_kept", {"DefaultLimitMEMLOCK": {"value": later, "source": source}}),
    )


CHANGES = {
    "other limits": Change(UB, limits("8388608", "infinity")),
    "an older unit": Change(UB, unit("chrony.service", stale=True)),
}
