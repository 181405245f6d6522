"""Cases of DG-164."""

from __future__ import annotations

from boot_changes import unit
from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change
from causes.faults import TUNED, VICTIM, Fault, make_step

CHANGES = {
    "a disabled service": Change(UB, unit("chrony.service", file="disabled")),
    "a masked one": Change(UB, unit("chrony.service", file="masked")),
    "started for this boot": Change(EL, unit("chronyd.service", EL, file="enabled-runtime")),
}
FAULTS = (
    Fault(
        "boot-unit",
        TUNED,
        make_step(VICTIM, "systemctl -q disable chrony", "systemctl -q enable chrony"),
    ),
)
