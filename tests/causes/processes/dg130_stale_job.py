"""Cases of DG-130."""

from __future__ import annotations

from records import EL1 as EL

from causes.changes import Change, add_listener
from causes.faults import LISTEN, MASTER, TUNED, Fault, make_python_command, run_service

CHANGES = {
    "stale job": Change(EL, add_listener("python3 -m torch.distributed.run train.py")),
}
RECORDED = {"stale-job": EL}
FAULTS = (
    Fault(
        "stale-job",
        TUNED,
        run_service(make_python_command(LISTEN, "-m", "torch.distributed.run", "train.py")),
        victim=MASTER,
        expect={"port": "29500"},
    ),
)
