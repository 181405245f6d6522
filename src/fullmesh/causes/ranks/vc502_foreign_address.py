"""A rank listens on an address outside the cluster network

Gloo listens on an address that the peers cannot reach, so they wait for this rank until their
timeout.

**Prove:** env | grep GLOO_SOCKET_IFNAME

**Fix:** ansible-playbook site.yml -i INVENTORY --tags launch.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-502", __doc__)
