"""a number among the settings of verify_cluster makes no sense

A setting of the role.

**Prove:** roles/verify_cluster/README.md

**Fix:** See the message.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-702", __doc__)
