"""A security group lacks a rule

A security group silently drops all traffic that no rule allows. The cluster needs the data port
range and the named ports open between its nodes. Without them connections time out.

**Prove:** aws ec2 describe-security-group-rules --filters Name=group-id,Values=ID

**Fix:** ansible-playbook playbooks/ec2.yml -i INVENTORY
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import SHUT, WALLS, has_same_links

CAUSE = Cause(
    "EC-112", __doc__, weight=810, explains=(Explains((*SHUT, *WALLS, "VC-209"), has_same_links),)
)
