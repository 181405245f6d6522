"""the store or rendezvous port is shut, the data range is open

The store is the first thing that a rank connects to: rank 0 says 'Timed out waiting for clients', the others 'client
socket has timed out'.

**Prove:** on a worker: nc -zv MASTER 29500 while something listens there

**Fix:** Open the store's port (29500) and the rendezvous' (29400) to the peers on the master.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, has_same_blocked_ports

CAUSE = Cause(
    "DG-105",
    __doc__,
    weight=700,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "store-drop", "drop 29500 and 29400 on the master's node, or one of them", fields=LINK
        ),
    ),
)
