"""EFA without the rule for all traffic from or to the group itself

EFA's traffic is no TCP and has no ports. AWS lets it through only by a rule for all traffic whose source or target is
the group itself, in both directions; outbound 0.0.0.0/0 does not replace it.

**Prove:** aws ec2 describe-security-group-rules --filters Name=group-id,Values=ID

**Fix:** ansible-playbook playbooks/ec2.yml -i INVENTORY, with ec2_security_group_mode: efa
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import SHUT, WALLS, has_same_links

CAUSE = Cause(
    "EC-113", __doc__, weight=800, explains=(Explains((*SHUT, *WALLS, "VC-209"), has_same_links),)
)
