"""A rank ended before the check was done

A rank crashed, or a signal killed it. The other ranks would wait for it, so the check stops.

**Prove:** journalctl -k --since -10min

**Fix:** Fix the error in the rank's last output, which result.json contains.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-303", __doc__)
