"""the nodes take their ports from different ranges

A firewall opens one range of ports. A node whose kernel takes ports from another one listens where nobody may come;
whether a job fails depends on which node connects (Gloo: the higher address to the lower one).

**Prove:** on every node: sysctl net.ipv4.ip_local_port_range

**Fix:** Give all nodes one range, in /etc/sysctl.d; role kernel_tuning does.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, WALLS, has_kernel_ports_only

CAUSE = Cause(
    "DG-107",
    __doc__,
    weight=840,
    explains=(Explains((*SHUT, *WALLS), has_kernel_ports_only),),
    cases=(
        CauseCase("range-drift-bare", "pin another range on one of two nodes that have no plan"),
    ),
)
