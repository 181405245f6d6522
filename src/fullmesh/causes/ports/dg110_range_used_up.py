"""the port range is used up

All ports are taken: by sockets in TIME_WAIT after fast restarts, or by something that leaks connections.

**Prove:** ss -tan | awk '{print $1}' | sort | uniq -c

**Fix:** Wait a minute, widen the range, find who holds the connections (ss -tanp).

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import (
    RANGES,
    SHUT,
    WALLS,
    has_kernel_ports_only,
    has_same_node,
    is_out_of_ports,
)

CAUSE = Cause(
    "DG-110",
    __doc__,
    weight=1010,
    explains=(
        Explains(("VC-204",), is_out_of_ports),
        Explains(("VC-108", *RANGES), has_same_node),
        Explains((*SHUT, *WALLS), has_kernel_ports_only),
    ),
    cases=(
        CauseCase(
            "range-full",
            "a small range (64 ports) filled with sockets in TIME_WAIT or connections inside it",
        ),
    ),
)
