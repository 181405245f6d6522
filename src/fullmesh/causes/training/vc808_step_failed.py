"""A training step failed or hung

A training step ended with an error, or did not end. The other ranks then wait in the next
collective.

**Prove:** grep -n -A3 VC-808 result.json

**Fix:** Correct the error in the rank's traceback. If it names the network, apply the fix that ./fullmesh diagnose -i
INVENTORY names.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-808", __doc__)
