"""Cases of DG-149."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, gpus, put, together
from causes.faults import BARE, Fault, fake_gpus

CHANGES = {
    "gpu count": Change(UB, together(put("gpus", gpus(8), EL), put("gpus", gpus(7)))),
    "gpu driver": Change(UB, together(put("gpus", gpus(8), EL), put("gpus", gpus(8, "535.2")))),
}
FAULTS = (Fault("gpus", BARE, fake_gpus("h200x8", "gpus=7")),)
