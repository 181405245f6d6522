"""A node has GPUs and torch sees none

The PCI bus or the driver shows GPUs and torch is built for GPUs, but no rank sees one. There is no
driver, it fails or is too old for this torch, or a container lacks the device files.

**Prove:** nvidia-smi && ls -l /dev/nvidia* && python -c 'import torch;
print(torch.cuda.is_available())'

**Fix:** Install a driver (role nvidia_driver), and reboot if nouveau used the GPUs. Give a
container the devices (--gpus all).
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-719", __doc__)
