"""A node name does not resolve to the cluster address

torchrun sends host names to the peers. A peer that resolves such a name to another address connects
to the wrong machine.

**Prove:** getent ahosts NAME

**Fix:** ansible-playbook site.yml -i INVENTORY --tags network (writes the plan's names into /etc/hosts).
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-101", __doc__)
