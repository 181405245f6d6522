"""verify_cluster_links has a value that does not exist

The setting verify_cluster_links selects how the verification tests the links of the mesh. Fullmesh
stops before the verification starts.

**Prove:** grep -r verify_cluster_links inventory/

**Fix:** Set verify_cluster_links to auto, all or ports. roles/verify_cluster/README.md describes
them.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-780", __doc__)
