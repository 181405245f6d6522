"""A network ACL blocks the replies

A network ACL is stateless. Replies go to an ephemeral port of the client, so the other direction
must allow these ports, too. Otherwise connections time out.

**Prove:** aws ec2 describe-network-acls --filters Name=association.subnet-id,Values=ID

**Fix:** Allow TCP 1024-65535 in the direction that the finding names.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import SHUT, WALLS, has_same_links

CAUSE = Cause(
    "EC-115", __doc__, weight=780, explains=(Explains((*SHUT, *WALLS, "VC-209"), has_same_links),)
)
