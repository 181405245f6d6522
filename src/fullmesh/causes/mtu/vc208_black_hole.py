"""large packets are lost (MTU black hole)

Init and small collectives pass, the first large one hangs: 'Timed out waiting for recv'. The ends believe in a larger
MTU than the path has, and the ICMP answers that would say so are filtered.

**Prove:** ping -M do -s 1472 PEER; ip -br link

**Fix:** One MTU at both ends and on all switches; let ICMP 'fragmentation needed' through.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains

CAUSE = Cause(
    "VC-208",
    __doc__,
    weight=860,
    explains=(Explains(("VC-110", "VC-209", "DG-139")),),
    cases=(
        CauseCase(
            "mtu",
            "mtu 9000 at both ends over a 1500 path with offloads off; or drop packets longer than 1400 on the way",
            fields=LINK,
        ),
    ),
)
