"""a service listens, but not on the cluster address

A program that listens on 127.0.0.1, or on the address of another card, has the port, and no peer can come to it: host
names that lead to loopback, or a default such as localhost, make it so.

**Prove:** on the node: ss -ltnp 'sport = :PORT'

**Fix:** Give the service the cluster address (Ray: --node-ip-address, which fullmesh-ray does), or every address.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, has_same_blocked_ports

CAUSE = Cause(
    "DG-275",
    __doc__,
    weight=670,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(CauseCase("service-loopback", "a service that listens on 127.0.0.1", fields=LINK),),
)
