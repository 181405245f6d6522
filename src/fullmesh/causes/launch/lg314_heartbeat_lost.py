"""torchrun: a node lost its heartbeat: clocks differ by 15 s or more, or its agent ended

The rendezvous dropped {nodes} because no heartbeat arrived. It compares wall clocks (15 s), so it
drops a healthy node whose clock is wrong. The other nodes may train alone and exit with 0.

**Place:** the node named there, or the clock of the node of this log

**Prove:** on all nodes at once: date +%s.%N (or ./fullmesh verify -i INVENTORY: VC-103)

**Fix:** ./fullmesh apply -i INVENTORY --tags tuning (role time_sync).

**Source:** measured: -20 s and -60 s lost a node silently (the line needs LOGLEVEL=DEBUG),
dynamic_rendezvous.py
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-314",
    __doc__,
    examples=(
        (
            "As part of the sync operation the node(s) 'node2_4711_0' have been removed from the "
            "rendezvous 'job1' since they had no heartbeat."
        ),
    ),
    patterns=(
        Pattern(
            "had no heartbeat",
            r"the node\(s\) (?P<nodes>.{1,200}?) have been removed from the rendezvous",
        ),
    ),
    explains=(Explains(("LG-302",)),),
    weight=86,
)
