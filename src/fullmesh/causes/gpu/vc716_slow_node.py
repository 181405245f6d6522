"""the GPUs of a node are slower among themselves than the others' (warning)

NVLink down, fabric manager not started, or copies over PCIe make one node slower than its like.

**Prove:** nvidia-smi nvlink -s; nvidia-smi topo -m

**Fix:** systemctl enable --now nvidia-fabricmanager where there is NVSwitch.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-716", __doc__, severity=WARNING)
