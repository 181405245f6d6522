"""Cases of DG-131."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, set_variable
from causes.faults import TUNED, Fault, set_job_variable

CHANGES = {
    "world size": Change(UB, set_variable("WORLD_SIZE", "3")),
    "nnodes": Change(EL, set_variable("NNODES", "4", EL, UB)),
}
FAULTS = (Fault("world-size", TUNED, set_job_variable("WORLD_SIZE=3")),)
