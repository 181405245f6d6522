"""Cases of VC-136."""

from __future__ import annotations

from typing import Any

from records import EL1 as EL
from records import UBUNTU1 as UB
from verify_changes import change_h100

from causes.changes import Change, combine, make_gpus, set_survey_part
from causes.faults import make_gpu_fault


def make_absent_fabric() -> dict[str, Any]:
    held = make_gpus(2)
    return {**held, "cards": [{**card, "fabric": "Not Started"} for card in held["cards"]]}


VERIFICATION = {
    "fabric not up": change_h100(state="In Progress"),
}
CHANGES = {
    "fabric not up": Change(
        UB,
        combine(
            set_survey_part("gpus", make_gpus(2), EL), set_survey_part("gpus", make_absent_fabric())
        ),
    ),
}
FAULTS = (make_gpu_fault("fabric", "*.fabric=2", "fm=inactive"),)
