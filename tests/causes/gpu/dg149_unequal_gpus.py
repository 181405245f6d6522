"""Cases of DG-149."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, combine, make_gpus, set_survey_part
from causes.faults import BARE, Fault, fake_gpus

CHANGES = {
    "gpu count": Change(
        UB,
        combine(set_survey_part("gpus", make_gpus(8), EL), set_survey_part("gpus", make_gpus(7))),
    ),
    "gpu driver": Change(
        UB,
        combine(
            set_survey_part("gpus", make_gpus(8), EL),
            set_survey_part("gpus", make_gpus(8, "535.2")),
        ),
    ),
}
FAULTS = (Fault("gpus", BARE, fake_gpus("h200x8", "gpus=7")),)
