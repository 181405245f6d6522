"""a second set of nftables rules stops what the node's firewall accepts

In nftables an accept ends one base chain only: the next table still drops. So opening ports in firewalld does not
help while a table of Docker, of a hardening script or of a forgotten experiment drops them.

**Prove:** nft list ruleset; nft list chains

**Fix:** Remove the rule, or add the peers to it; find who loads it at boot (grep -r TABLE /etc).

**Source:** nft(8); measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, has_same_blocked_ports

CAUSE = Cause(
    "DG-113",
    __doc__,
    weight=760,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "second-table",
            "a table of one's own whose input chain drops the data range, while another table's chain accepts it",
            fields=LINK,
        ),
    ),
)
