"""A node has GPUs and a torch that is built for CPUs

The CPU build of torch, the default of role torch_runtime, trains without the GPUs and prints no
warning. Fullmesh also searches the PCI bus, so it finds GPUs without a driver.

**Prove:** lspci -d 10de: && /opt/fullmesh/venv/bin/python -c 'import torch;
print(torch.version.cuda)'

**Fix:** Set torch_runtime_accelerator: cuda in the inventory, then ansible-playbook site.yml -i
INVENTORY --tags packages.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause("VC-717", __doc__, weight=380, explains=(Explains(("VC-711",), has_same_node),))
