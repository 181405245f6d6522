"""A number in the settings of verify_cluster is invalid

A setting of role verify_cluster has a number outside its allowed range. Fullmesh stops before the
verification starts.

**Prove:** grep -r verify_cluster_ inventory/

**Fix:** Correct the value that the message names. roles/verify_cluster/README.md describes the
settings.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-702", __doc__)
