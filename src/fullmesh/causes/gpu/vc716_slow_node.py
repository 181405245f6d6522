"""The GPUs of a node are slower among themselves than those of the other nodes (warning)

NVLink is down, the fabric manager does not run, or copies use PCIe. Collectives wait for this node.

**Prove:** nvidia-smi nvlink -s && nvidia-smi topo -m

**Fix:** If the machine has NVSwitch: systemctl enable --now nvidia-fabricmanager. Otherwise see
VC-135.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-716", __doc__, severity=WARNING)
