"""a service's port is shut, the data range is open

Ray, a JAX coordinator or an API has a port of its own beside torch's; the first one that is shut is where it hangs,
often without a word (ray#28191).

**Prove:** on a peer: nc -zv NODE PORT; on the node: nft list ruleset | grep PORT

**Fix:** Name the service in fullmesh_services and run site.yml, or open the port to the peers (docs/services.md).

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, has_same_blocked_ports

CAUSE = Cause(
    "DG-175",
    __doc__,
    weight=680,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(CauseCase("service-drop", "as 1 for one port of a service", fields=LINK),),
)
