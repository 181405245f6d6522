"""Cases of DG-130."""

from __future__ import annotations

from records import EL1 as EL

from causes.changes import Change, listener
from causes.faults import LISTEN, MASTER, TUNED, Fault, python, service

CHANGES = {
    "stale job": Change(EL, listener("python3 -m torch.distributed.run train.py")),
}
RECORDED = {"stale-job": EL}
FAULTS = (
    Fault(
        "stale-job",
        TUNED,
        service(python(LISTEN, "-m", "torch.distributed.run", "train.py")),
        victim=MASTER,
        expect={"port": "29500"},
    ),
)
