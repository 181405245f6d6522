"""a node has GPUs and torch sees none

GPUs are on the bus or held by the driver, torch is built for GPUs, and no rank sees one: no driver, one that fails or
is too old for this torch, or a container without the device files.

**Prove:** nvidia-smi; ls -l /dev/nvidia*; python -c 'import torch; print(torch.cuda.is_available())'

**Fix:** Role nvidia_driver brings a driver; a reboot where nouveau held the GPUs; the devices into the container.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-719", __doc__)
