"""a node name resolves to something else than the cluster address

torchrun hands out names, and a peer that makes another address of them connects to the wrong place.

**Prove:** getent ahosts NAME on every node

**Fix:** ansible-playbook site.yml -i INVENTORY --tags network writes the plan's names into /etc/hosts.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-101", __doc__)
