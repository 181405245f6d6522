"""The cluster address is on a different interface than planned

GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME then name the wrong interface, and the ranks of this node
fail or announce an address that peers cannot reach.

**Prove:** ip -br address

**Fix:** ansible-playbook site.yml -i INVENTORY --tags network.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-122", __doc__)
