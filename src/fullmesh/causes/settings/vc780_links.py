"""verify_cluster_links is no way to try the mesh

A setting of the role.

**Prove:** roles/verify_cluster/README.md

**Fix:** See the message.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-780", __doc__)
