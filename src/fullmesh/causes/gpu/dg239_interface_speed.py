"""a network card negotiated a lower speed than the others'

A cable or a port that negotiated down makes one node the brake of all.

**Prove:** ethtool INTERFACE

**Fix:** Change the cable, look at the switch port.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_root_node
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-239",
    __doc__,
    severity=WARNING,
    weight=510,
    explains=(Explains(("DG-139",), has_root_node),),
    cases=(CauseCase("slow-speed", "a card negotiated less than the others' cards", by=RECORDED),),
)
