"""the packets between EFA nodes vanish: the security group must allow itself

EFA traffic is allowed by security group, not by port: the group must allow all traffic to and from itself, by its own
id. An egress rule for 0.0.0.0/0 is not enough. Jobs hang with NET/OFI error 4126.

**Prove:** aws ec2 describe-security-groups --group-ids ID

**Fix:** Add a rule for all traffic from and to the group itself.

**Source:** aws-ofi-nccl#663
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, has_same_blocked_ports

CAUSE = Cause(
    "DG-116",
    __doc__,
    weight=730,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "efa", "as 15 between nodes that both have an EFA device", by=RECORDED, fields=LINK
        ),
    ),
)
