"""loss or parameters differ between the ranks after training

After every step DDP's ranks have equal parameters; ranks that drift apart train several models.

**Prove:** all_gather of a checksum of the parameters

**Fix:** Look for gradients that are not reduced (no_sync, unused parameters) and versions that differ.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-803", __doc__)
