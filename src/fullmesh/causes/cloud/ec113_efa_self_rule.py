"""The security group lacks the rule that EFA needs: all traffic from and to the group itself

EFA traffic is not TCP and has no ports. AWS allows it only by rules for all traffic, in both
directions, whose source or target is the group itself. An outbound rule for 0.0.0.0/0 does not
replace them.

**Prove:** aws ec2 describe-security-group-rules --filters Name=group-id,Values=ID

**Fix:** ansible-playbook playbooks/ec2.yml -i INVENTORY, with ec2_security_group_mode: efa
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import SHUT, WALLS, has_same_links

CAUSE = Cause(
    "EC-113", __doc__, weight=800, explains=(Explains((*SHUT, *WALLS, "VC-209"), has_same_links),)
)
