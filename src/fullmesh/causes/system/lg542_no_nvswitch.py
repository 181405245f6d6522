"""The fabric manager finds no NVSwitch

NVIDIA's fabric manager ended because it found no NVSwitch to manage. Machines without NVSwitches
(PCIe cards, bridges) do not need it. On HGX B200 and newer, the switches are InfiniBand devices:
the modules mlx5_ib and ib_umad are not loaded, or nvlsm is missing. There, no GPU works (error 802).

**Place:** the node of this log

**Prove:** on that node, run `lspci | grep -i -E 'nvswitch|bridge.*nvidia'`, `lsmod | grep -E
'mlx5_ib|ib_umad'` and `nvidia-smi topo -m` (NV# between all GPUs needs switches)

**Fix:** Without NVSwitches, disable the service: systemctl disable --now nvidia-fabricmanager. On
B200, install linux-modules-extra and nvlsm, load both modules, and start the service again.

**Source:** NVIDIA/gpu-operator#610, #2781
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-542",
    __doc__,
    examples=(
        (
            "nv-fabricmanager[4177]: request to query NVSwitch device information failed with error:"
            "WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
        ),
    ),
    patterns=(Pattern("NV_WARN_NOTHING_TO_DO"),),
    explains=(Explains(("LG-512",)),),
    weight=94,
)
