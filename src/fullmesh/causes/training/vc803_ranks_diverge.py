"""Loss or parameters differ between the ranks after training

After every step, all DDP ranks have the same parameters. If they differ, the ranks train different
models.

**Prove:** all_gather of a checksum of the parameters

**Fix:** Look for gradients that are not reduced (no_sync, unused parameters) and for versions that
differ.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-803", __doc__)
