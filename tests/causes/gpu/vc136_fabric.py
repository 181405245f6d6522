"""Cases of VC-136."""

from __future__ import annotations

from typing import Any

from records import EL1 as EL
from records import UBUNTU1 as UB
from verify_changes import change_h100

from causes.changes import Change, gpus, put, together
from causes.faults import gpu


def no_fabric() -> dict[str, Any]:
    held = gpus(2)
    return {**held, "cards": [{**card, "fabric": "Not Started"} for card in held["cards"]]}


VERIFICATION = {
    "fabric not up": change_h100(state="In Progress"),
}
CHANGES = {
    "fabric not up": Change(UB, together(put("gpus", gpus(2), EL), put("gpus", no_fabric()))),
}
FAULTS = (gpu("fabric", "*.fabric=2", "fm=inactive"),)
