"""Loss or parameters differ between the ranks after training

After every step, all DDP ranks have the same parameters. If they differ, the ranks train different
models.

**Prove:** all_gather of a checksum of the parameters

**Fix:** Reduce all gradients (no_sync and unused parameters leave some out), and use the same versions on all nodes.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-803", __doc__)
