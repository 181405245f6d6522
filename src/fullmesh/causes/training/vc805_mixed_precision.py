"""mixed precision does not train as it must

Autocast or the gradient scaler does not do what it says on this hardware.

**Prove:** torch.cuda.is_bf16_supported()

**Fix:** The other reduced type, or full precision.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-805", __doc__)
