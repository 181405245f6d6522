"""Cases of DG-136."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, use_other_family
from causes.faults import BARE, Fault, edit_hosts

CHANGES = {
    "family": Change(UB, use_other_family),
}
FAULTS = (
    Fault(
        "families", BARE, edit_hosts('sed "/$V_HOST/d" $OLD; echo "fd78::${V_ADDR##*.} $V_HOST"')
    ),
)
