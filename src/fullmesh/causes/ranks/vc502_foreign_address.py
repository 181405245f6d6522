"""a rank listened on an address that is not the cluster's

Gloo listened on an address that peers cannot reach.

**Prove:** env | grep GLOO_SOCKET_IFNAME

**Fix:** ansible-playbook site.yml -i INVENTORY --tags launch.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-502", __doc__)
