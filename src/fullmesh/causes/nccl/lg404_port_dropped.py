"""NCCL: packets to a peer's port are dropped (Connection timed out)

NCCL's connection to {peer} {port_note} got no reply: a firewall, a security group or a switch drops
the packets.

**Place:** the node with the address {peer}, or a device on the way to it, not the node of this log

**Prove:** ./fullmesh verify -i INVENTORY (check L2 must report VC-201). If the drop counters on
{peer} stay 0, a security group or a switch drops the packets.

**Fix:** ./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the port range and opens it to
the peers)

**Source:** read: nccl os/linux.cc:277-306, socket.cc, sgl-project/sglang#3820, NVIDIA/nccl#388
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause
from fullmesh.causes.nccl.patterns import build_connect_patterns, derive_nccl_retry

CAUSE = LogCause(
    "LG-404",
    __doc__,
    examples=(
        (
            "node1:1:2 [0] include/socket.h:403 NCCL WARN Connect to 172.18.40.42<42333> failed "
            ": Connection timed out"
        ),
    ),
    patterns=build_connect_patterns("Connection timed out"),
    key=("peer",),
    derive=derive_nccl_retry,
    weight=74,
)
