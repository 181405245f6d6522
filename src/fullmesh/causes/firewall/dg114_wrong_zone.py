"""the peers' packets come through a firewalld zone that does not open the ports

firewalld sorts packets into zones by source first, then by interface, and asks that zone and the policies that have
it, or ANY, among their ingress zones. The one that the peers come through does not open the ports; another zone, or a
policy for another zone, does.

**Prove:** firewall-cmd --get-active-zones; firewall-cmd --get-active-policies; firewall-cmd
--get-zone-of-interface=INTERFACE

**Fix:** Let a policy for ANY zone open the ports to the peers: ansible-playbook site.yml -i INVENTORY --tags
firewall.

**Source:** firewalld.zones(5), firewalld.policies(5)
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, has_same_blocked_ports

CAUSE = Cause(
    "DG-114",
    __doc__,
    weight=750,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "wrong-zone",
            "the policy that opens the ports to the peers is asked for a zone that they do not come through",
            fields=LINK,
            bare=False,
        ),
    ),
)
