"""Gloo: the interface in GLOO_SOCKET_IFNAME does not exist

GLOO_SOCKET_IFNAME names {interface}, which this node does not have (or which has no address).

**Place:** the node of this log

**Prove:** on that node: ip -brief addr && env | grep SOCKET_IFNAME

**Fix:** ./fullmesh apply -i INVENTORY --tags launch (role cluster_env writes each node's own
interface into the environment).

**Source:** measured, gloo device.cc:84 (GLOO_SOCKET_IFNAME is an exact name, NCCL's is a prefix)
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-108",
    __doc__,
    examples=(
        (
            "RuntimeError: [enforce fail at .../gloo/transport/tcp/device.cc:84] ifa != nullptr. "
            "Unable to find address for: eth9"
        ),
    ),
    patterns=(
        Pattern(
            "Unable to find address for:",
            r"Unable to find address for: (?P<interface>[^\s\]]{1,32})",
        ),
    ),
    explains=(Explains(("LG-210",)),),
    key=("interface",),
    weight=92,
    recorded=(
        RecordedLog(
            "gloo interface absent on one node",
            (
                "[rank1]: RuntimeError: [enforce fail at .../device.cc:84] ifa != nullptr. "
                "Unable to find address for: eth9\n"
                "[rank0]: torch.distributed.DistStoreError: wait timeout after 10000ms, keys: "
                "/default_pg/0//cpu//0/1"
            ),
            folded=("LG-210",),
        ),
    ),
)
