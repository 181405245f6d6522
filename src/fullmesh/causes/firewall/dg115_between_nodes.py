"""something between the nodes stops the packets

Taps on both nodes saw the packets leave and did not see them arrive, so it is neither node's firewall: a cloud
security group, a switch's access list, a hypervisor, a router.

**Prove:** tcpdump -ni INTERFACE 'tcp[tcpflags] & tcp-syn != 0' on both nodes

**Fix:** Allow the data range and the named ports between the nodes there, in both directions.

**Source:** AF_PACKET taps before and behind the nodes' own firewalls
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, has_same_blocked_ports

CAUSE = Cause(
    "DG-115",
    __doc__,
    weight=740,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "between",
            "drop on the bridge outside the node, or a netdev ingress hook on the host's end of its cable",
            fields=LINK,
        ),
    ),
)
