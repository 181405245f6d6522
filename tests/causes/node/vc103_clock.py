"""Cases of VC-103."""

from __future__ import annotations

from records import UBUNTU1
from verify_changes import links

from causes.faults import BARE, NOT_IN_PYTHON, VICTIM, Fault, make_step, run_in_every_python
from fullmesh.verify.model import ClusterObservations

# A container uses the machine's clock, which must not be changed.
LATE = run_in_every_python("import time\\nreal = time.time\\ntime.time = lambda: real() - 20\\n")


def move_clock(seen: ClusterObservations, seconds: float) -> None:
    """Let the peers measure that the last node's clock is ahead."""
    for name in seen.plan["nodes"]:
        for record in links(seen, name, UBUNTU1):
            record["offset"] = seconds
        for record in links(seen, UBUNTU1, name):
            record["offset"] = -seconds


VERIFICATION = {
    "clock behind": lambda s: move_clock(s, -20.0),
    "clock ahead": lambda s: move_clock(s, 6.0),
}
FAULTS = (Fault("clock", BARE, make_step(VICTIM, LATE, NOT_IN_PYTHON)),)
