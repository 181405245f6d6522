"""A node, or a security group, is in another VPC

Security groups, their rules and private addresses are valid within one VPC. Nodes in 2 VPCs reach
each other only through a peering or a gateway, which the cluster's group does not open.

**Prove:** aws ec2 describe-instances --query 'Reservations[].Instances[].[InstanceId,VpcId]'

**Fix:** Use one VPC, or set ec2_security_group_vpc_id.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import SHUT, WALLS, has_same_links

CAUSE = Cause(
    "EC-110", __doc__, weight=830, explains=(Explains((*SHUT, *WALLS, "VC-209"), has_same_links),)
)
