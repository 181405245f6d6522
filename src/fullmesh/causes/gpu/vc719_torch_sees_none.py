"""A node has GPUs and torch sees none

The PCI bus or the driver shows GPUs and torch is built for GPUs, but no rank sees one. There is no
driver, it fails or is too old for this torch, or a container lacks the device files. AMD's GPUs count
if torch is built for ROCm.

**Prove:** nvidia-smi && ls -l /dev/nvidia* && python -c 'import torch;
print(torch.cuda.is_available())'. For AMD: ls -l /dev/kfd /dev/dri

**Fix:** Install a driver (role nvidia_driver), and reboot if nouveau used the GPUs. Give a
container the devices (--gpus all, for AMD --device /dev/kfd --device /dev/dri).
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-719", __doc__)
