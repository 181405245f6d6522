"""A rank cannot use the store or rendezvous port

A rank could not connect to the store on rank 0's node, or the store did not answer it. Without the
store, the ranks of a job cannot find each other.

**Prove:** grep -n VC-301 result.json

**Fix:** Fix the blocked link that the findings name for this rank's node.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-301", __doc__)
