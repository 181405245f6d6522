"""NVSHMEM: it does not find the module nvidia_peermem

NVSHMEM skips a transport (InfiniBand, IBGDA) because it does not find nvidia_peermem, through which
the NIC reads the GPU's memory. The module is not loaded on the node, or this NVSHMEM looks for it
in a place that newer drivers do not have.

**Place:** the node of this log (a container uses the module of its node)

**Prove:** on the node: lsmod | grep peermem && ls /sys/module/nvidia_peermem
/sys/kernel/mm/memory_peers

**Fix:** modprobe nvidia_peermem, and add it to a file in /etc/modules-load.d for the next boot. If
it is loaded, install a newer NVSHMEM, or DeepEP with its change 151.

**Source:** deepseek-ai/DeepEP#151, sgl-project/sglang#6017
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-727",
    __doc__,
    examples=(
        (
            "/src/modules/transport/ibgda/ibgda.cpp:nvshmemt_init:3626: neither nv_peer_mem, or "
            "nvidia_peermem detected. Skipping transport."
        ),
    ),
    patterns=(
        Pattern(
            "nvidia_peermem detected", r"neither nv_peer_mem,? (?:or|nor) nvidia_peermem detected"
        ),
    ),
    explains=(Explains(("LG-723",)),),
    weight=89,
)
