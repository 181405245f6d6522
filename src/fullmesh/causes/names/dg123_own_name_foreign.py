"""a node's own name leads to an address that the node does not have

Without GLOO_SOCKET_IFNAME Gloo takes the address of the node's own name. When that is not on the node it warns and
takes loopback.

**Prove:** getent ahosts $(hostname)

**Fix:** Put the node's own address and name into /etc/hosts; fix the DNS entry.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import is_own_name

CAUSE = Cause(
    "DG-123",
    __doc__,
    weight=630,
    explains=(Explains(("VC-101",), is_own_name),),
    cases=(CauseCase("own-foreign", "203.0.113.9 HOSTNAME in /etc/hosts"),),
)
