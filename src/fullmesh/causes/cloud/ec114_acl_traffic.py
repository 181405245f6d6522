"""A network ACL blocks the cluster's traffic

A network ACL filters at the edge of a subnet, in addition to security groups. The first rule that
matches decides.

**Prove:** aws ec2 describe-network-acls --filters Name=association.subnet-id,Values=ID

**Fix:** Allow the ports that the finding names, with a lower rule number than the rule that denies
them.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import SHUT, WALLS, has_same_links

CAUSE = Cause(
    "EC-114", __doc__, weight=790, explains=(Explains((*SHUT, *WALLS, "VC-209"), has_same_links),)
)
