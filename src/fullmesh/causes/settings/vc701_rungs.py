"""verify_cluster_rungs names a rung that does not exist

A setting of the role.

**Prove:** roles/verify_cluster/README.md

**Fix:** See the message.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-701", __doc__)
