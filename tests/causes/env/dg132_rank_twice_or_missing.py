"""Cases of DG-132."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, run_rank, set_variable
from causes.faults import TUNED, Fault, set_job_variable
from fullmesh.result.findings import WARNING

CHANGES = {
    "node rank": Change(UB, set_variable("NODE_RANK", "0")),
    "rank missing": Change(EL, run_rank(0, EL), WARNING),
}
FAULTS = (Fault("node-rank", TUNED, set_job_variable("NODE_RANK=0")),)
