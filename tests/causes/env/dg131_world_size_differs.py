"""Cases of DG-131."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, variable
from causes.faults import TUNED, Fault, job_variable

CHANGES = {
    "world size": Change(UB, variable("WORLD_SIZE", "3")),
    "nnodes": Change(EL, variable("NNODES", "4", EL, UB)),
}
FAULTS = (Fault("world-size", TUNED, job_variable("WORLD_SIZE=3")),)
