"""a node has GPUs and a torch that is built for CPUs

torch's build for CPUs, the default of role torch_runtime, trains on a node with GPUs, without a word and without the
GPUs. The PCI bus is looked at too, so GPUs without a driver count.

**Prove:** lspci -d 10de:; /opt/fullmesh/venv/bin/python -c 'import torch; print(torch.version.cuda)'

**Fix:** torch_runtime_accelerator: cuda in the inventory. ansible-playbook site.yml -i INVENTORY --tags packages.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause("VC-717", __doc__, weight=380, explains=(Explains(("VC-711",), has_same_node),))
