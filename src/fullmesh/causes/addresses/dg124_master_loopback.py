"""the master's name leads to loopback on another node

The worker looks for the store on itself: refused until the time-out, while rank 0 counts '1/2 clients joined'.

**Prove:** on the worker: getent ahosts MASTER

**Fix:** Take the master's name off the loopback line of /etc/hosts; use an address in MASTER_ADDR.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "DG-124",
    __doc__,
    weight=620,
    explains=(Explains(("VC-101", "DG-126", "DG-127"), has_same_node),),
    cases=(CauseCase("master-loopback", "127.0.0.1 MASTERNAME first in a worker's /etc/hosts"),),
)
