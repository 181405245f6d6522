"""The kernel does not use the pinned port range

Gloo and NCCL take their ports from the kernel's range. If that is not the range that the firewall
opens, peers cannot reach their listeners.

**Prove:** sysctl net.ipv4.ip_local_port_range

**Fix:** ansible-playbook site.yml -i INVENTORY --tags tuning.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, WALLS, has_kernel_ports_only, has_same_node

CAUSE = Cause(
    "VC-107",
    __doc__,
    weight=850,
    explains=(
        Explains(("DG-107", "VC-212", "VC-213", "VC-602", "DG-112"), has_same_node),
        Explains(("DG-107",)),
        Explains((*SHUT, *WALLS), has_kernel_ports_only),
    ),
    cases=(CauseCase("range-drift", "sysctl -w net.ipv4.ip_local_port_range='32768 60999'"),),
)
