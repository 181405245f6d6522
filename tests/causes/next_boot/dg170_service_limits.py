"""Cases of DG-170."""

from __future__ import annotations

from boot_changes import set_boot_part, unit
from records import UBUNTU1 as UB

from causes.changes import Break, Change, combine


def change_limits(
    now: str, later: str, source: str = "/etc/systemd/system.conf.d/memlock.conf"
) -> Break:
    return combine(
        set_boot_part("limits", {"DefaultLimitMEMLOCK": now}),
        set_boot_part("limits_kept", {"DefaultLimitMEMLOCK": {"value": later, "source": source}}),
    )


CHANGES = {
    "other limits": Change(UB, change_limits("8388608", "infinity")),
    "an older unit": Change(UB, unit("chrony.service", stale=True)),
}
