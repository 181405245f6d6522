"""Cases of DG-136."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, other_family
from causes.faults import BARE, Fault, hosts

CHANGES = {
    "family": Change(UB, other_family),
}
FAULTS = (
    Fault("families", BARE, hosts('sed "/$V_HOST/d" $OLD; echo "fd78::${V_ADDR##*.} $V_HOST"')),
)
