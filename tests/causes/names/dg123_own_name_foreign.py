"""Cases of DG-123."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_survey_part
from causes.faults import BARE, Fault, edit_hosts

CHANGES = {
    "own foreign": Change(UB, set_survey_part("own_answers", ["203.0.113.9"])),
}
FAULTS = (
    Fault("own-foreign", BARE, edit_hosts('sed "/$V_HOST/d" $OLD; echo "203.0.113.9 $V_HOST"')),
)
