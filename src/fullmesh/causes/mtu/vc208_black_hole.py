"""Large packets are lost (MTU black hole)

Init and small collectives work, and the first large one hangs: 'Timed out waiting for recv'. The
ends use a larger MTU than the path allows, and the ICMP errors that would report this are filtered.

**Prove:** ping -M do -s 1472 PEER && ip -br link

**Fix:** Set one MTU on both ends and all switches. Allow ICMP 'fragmentation needed' in firewalls.

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
            "mtu 9000 at both ends over a 1500 path with offloads off, or a drop of packets longer than 1400 bytes",
            fields=LINK,
        ),
    ),
)
