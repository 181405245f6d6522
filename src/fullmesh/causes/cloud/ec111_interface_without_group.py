"""a network interface without the group

A rule that lets the group itself in covers only interfaces that are members of the group. AWS drops what the node
sends and what it is sent, without an answer.

**Prove:** aws ec2 describe-network-interfaces --network-interface-ids ID --query 'NetworkInterfaces[].Groups'

**Fix:** ansible-playbook playbooks/ec2.yml -i INVENTORY
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import SHUT, WALLS, has_same_links

CAUSE = Cause(
    "EC-111", __doc__, weight=820, explains=(Explains((*SHUT, *WALLS, "VC-209"), has_same_links),)
)
