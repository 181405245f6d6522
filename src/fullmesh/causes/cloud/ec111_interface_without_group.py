"""A network interface is not in the security group

The rule that allows traffic within the group covers only interfaces in it. AWS silently drops the
cluster's packets to and from this one, so connections time out.

**Prove:** aws ec2 describe-network-interfaces --network-interface-ids ID --query
'NetworkInterfaces[].Groups'

**Fix:** ansible-playbook playbooks/ec2.yml -i INVENTORY
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import SHUT, WALLS, has_same_links

CAUSE = Cause(
    "EC-111", __doc__, weight=820, explains=(Explains((*SHUT, *WALLS, "VC-209"), has_same_links),)
)
