"""one node announces IPv4, another IPv6

Gloo compares the two addresses and stops: 'ss1.ss_family == ss2.ss_family. 2 vs 10'.

**Prove:** getent ahosts $(hostname); ip -br address

**Fix:** Give all nodes the same family first: in GLOO_SOCKET_IFNAME's interface or in /etc/hosts.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "DG-136",
    __doc__,
    weight=650,
    explains=(Explains(("VC-102", "VC-101"), has_same_node),),
    cases=(
        CauseCase(
            "families",
            "GLOO_SOCKET_IFNAME unset; the node's name has only an IPv6 address of its own in /etc/hosts",
        ),
    ),
)
