"""reverse lookups of peers hang

TCPStore looks up the name of every client that connects, one after the other. A silent name server costs seconds
each: 'hostname of the client socket cannot be retrieved'.

**Prove:** time getent hosts PEER

**Fix:** Put the peers into /etc/hosts; fix /etc/resolv.conf.

**Source:** pytorch#159007
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import NAMED, has_same_node

CAUSE = Cause(
    "DG-145",
    __doc__,
    weight=660,
    explains=(Explains(NAMED, has_same_node),),
    cases=(
        CauseCase("dns-black-hole", "nameserver SILENT in resolv.conf, no peers in /etc/hosts"),
    ),
)
