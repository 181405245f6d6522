"""Mixed precision training gives wrong results

Autocast or the gradient scaler does not work correctly on this hardware.

**Prove:** python -c 'import torch; print(torch.cuda.is_bf16_supported())'

**Fix:** Use the other reduced type (bfloat16 or float16), or full precision.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-805", __doc__)
