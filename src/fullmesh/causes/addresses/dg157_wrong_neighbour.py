"""a neighbour entry made by hand is not the peer's

The kernel never asks anew for an entry that is PERMANENT or NOARP. After the peer's card was changed, or the entry
was copied from elsewhere, every packet for the peer goes to a machine that drops it, or to none.

**Prove:** ip neigh show PEER nud all (without that NOARP is left out); on the peer: ip link show INTERFACE

**Fix:** ip neigh del PEER dev INTERFACE, and take the line out of whatever sets it at boot.

**Source:** measured: drop reason OTHERHOST at whoever gets the frame
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, is_return_path

CAUSE = Cause(
    "DG-157",
    __doc__,
    weight=990,
    explains=(
        Explains(
            (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-141", "DG-158"), is_return_path
        ),
    ),
    cases=(
        CauseCase(
            "neighbour-by-hand", "ip neigh replace PEER lladdr of nobody, permanent", fields=LINK
        ),
    ),
)
