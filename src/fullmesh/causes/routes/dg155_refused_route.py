"""a route or a rule of a node refuses to send to a peer

A blackhole, prohibit or unreachable entry, in a routing table or among the rules that pick one, makes the node's own
kernel refuse: connect() ends at once with EINVAL, EACCES or EHOSTUNREACH, and answers to the peer are thrown away in
silence. No packet filter shows it. The diagnosis asks the kernel as ip route get does, with each port.

**Prove:** ip route get PEER; ip route show table all | grep -E 'blackhole|prohibit|unreachable'; ip rule

**Fix:** Take the entry away, and whoever sets it: VPN clients, fail2ban's route action, boot scripts.

**Source:** measured: errno of connect() and of RTM_GETROUTE for each kind
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, is_return_path

CAUSE = Cause(
    "DG-155",
    __doc__,
    weight=980,
    explains=(
        Explains(
            (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-141", "DG-156", "DG-158"),
            is_return_path,
        ),
    ),
    cases=(
        CauseCase("no-route", "ip route replace unreachable PEER on the node", fields=LINK),
        CauseCase(
            "refused",
            "ip route add blackhole or prohibit PEER; ip rule add to PEER prohibit",
            fields=LINK,
        ),
    ),
)
