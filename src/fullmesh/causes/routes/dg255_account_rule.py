"""a rule of a node stops, or leads astray, what some accounts send

Rules may pick a routing table by the account (ip rule, uidrange), as VPN clients do. The probe gets through and a job
of that account does not.

**Prove:** ip rule | grep uidrange; as that account: ip route get PEER

**Fix:** Take the rule away, or leave the peers out of it: a rule for them with a smaller number, lookup main.

**Source:** measured: ip rule uidrange prohibit
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-255",
    __doc__,
    severity=WARNING,
    weight=290,
    cases=(
        CauseCase(
            "refused-account", "ip rule add uidrange 1000-1999 to PEER prohibit", fields=LINK
        ),
    ),
)
