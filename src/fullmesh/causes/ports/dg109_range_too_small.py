"""the port range is too small for the ranks

A rank needs a listening port for every process group and a port for every connection; restarts leave some in
TIME_WAIT for a minute. Too few give 'Address already in use' or 'Cannot assign requested address', or no message at
all.

**Prove:** sysctl net.ipv4.ip_local_port_range

**Fix:** Widen the range; 4096 ports are the default of Fullmesh.

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
    "DG-109",
    __doc__,
    weight=1020,
    explains=(
        Explains(("VC-204",), is_out_of_ports),
        Explains(("DG-110", "VC-108", *RANGES), has_same_node),
        Explains(("DG-107",)),
        Explains((*SHUT, *WALLS), has_kernel_ports_only),
    ),
    cases=(CauseCase("range-small", "sysctl -w net.ipv4.ip_local_port_range='50000 50009'"),),
)
