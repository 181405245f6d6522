"""Packets leave with a different source address than the cluster's

The route selects another source address. Firewalls that accept the peers' cluster addresses drop
these packets.

**Prove:** ip route get PEER

**Fix:** Set the source of the route, or the address of the interface: ansible-playbook site.yml -i
INVENTORY --tags network.
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, WALLS, has_same_links

CAUSE = Cause(
    "VC-206",
    __doc__,
    weight=880,
    explains=(Explains((*SHUT, *WALLS, "DG-138"), has_same_links),),
    cases=(
        CauseCase(
            "wrong-source",
            "ip route replace PEER dev eth1 src another address of the node",
            fields=LINK,
        ),
    ),
)
