"""the host name is not the plan's

torchrun announces the host name to the peers.

**Prove:** hostname

**Fix:** ansible-playbook site.yml -i INVENTORY --tags network.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-123", __doc__)
