"""The data range is reserved, so the kernel cannot assign its ports

The kernel never assigns a reserved port. Programs fail with 'Cannot assign requested address', also
for outgoing connections.

**Prove:** sysctl net.ipv4.ip_local_reserved_ports

**Fix:** Reserve only the named ports. To find the file: grep -r reserved_ports /etc/sysctl.d.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import RANGES, has_same_node, is_out_of_ports

CAUSE = Cause(
    "VC-108",
    __doc__,
    weight=1000,
    explains=(
        Explains(("VC-204",), is_out_of_ports),
        Explains(RANGES, has_same_node),
    ),
    cases=(CauseCase("range-reserved", "sysctl -w net.ipv4.ip_local_reserved_ports=50000-54095"),),
)
