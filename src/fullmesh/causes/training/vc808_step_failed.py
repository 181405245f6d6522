"""a training step failed or hung

A training step ended with an error, or did not end.

**Prove:** The rank's traceback in the finding

**Fix:** ./fullmesh diagnose -i INVENTORY; then the message.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-808", __doc__)
