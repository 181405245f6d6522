"""verify_cluster_checks names a check that does not exist

The setting verify_cluster_checks lists the checks to run, from L0 to L8. Fullmesh stops before it
starts any of them.

**Prove:** grep -r verify_cluster_checks inventory/

**Fix:** Correct the value that the message names. roles/verify_cluster/README.md lists the checks.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-701", __doc__)
