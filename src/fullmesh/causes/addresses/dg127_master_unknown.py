"""MASTER_ADDR is a name that a node cannot resolve

torch says 'gai error: -3 - Temporary failure in name resolution' and repeats until the time-out.

**Prove:** getent ahosts NAME

**Fix:** Put the name into /etc/hosts, or use the address.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "DG-127",
    __doc__,
    weight=590,
    explains=(Explains(("VC-101",), has_same_node),),
    cases=(CauseCase("master-unknown", "MASTER_ADDR=no-such-node"),),
)
