"""NVLink between two GPUs does not work

Two GPUs are connected by NVLink, but the driver reports that they cannot reach each other's memory
({detail}). The hardware, the NVSwitch fabric or an IOMMU setting is faulty.

**Place:** the node of this log

**Prove:** on that node, run `nvidia-smi nvlink -s`, `nvidia-smi topo -p2p r` and `systemctl status
nvidia-fabricmanager`

**Fix:** Restart the fabric manager and reset the GPUs, or reboot. If it stays, the hardware is
faulty. To work without NVLink until then, set NCCL_P2P_DISABLE=1.

**Source:** read: NCCL's transport/p2p.cc and graph/paths.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-449",
    __doc__,
    examples=(
        (
            "n:1:2 [0] graph/paths.cc:5 NCCL WARN P2P is disabled between NVLINK connected GPUs "
            "1 and 0. This should not be the case given their connectivity, and is probably due "
            "to a hardware issue."
        ),
    ),
    patterns=(
        Pattern(
            "between NVLINK connected GPUs",
            r"(?P<detail>P2P is disabled between NVLINK connected GPUs \d{1,4} and \d{1,4})",
        ),
    ),
    weight=84,
)
