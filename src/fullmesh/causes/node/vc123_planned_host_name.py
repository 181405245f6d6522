"""The host name differs from the planned one

torchrun announces the host name to the peers, which cannot resolve it or resolve it to another
machine.

**Prove:** hostname

**Fix:** ansible-playbook site.yml -i INVENTORY --tags network.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-123", __doc__)
