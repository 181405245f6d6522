"""NCCL: a peer refuses the connection (Connection refused)

NCCL's connection to {peer} {port_note} was refused: a firewall sends a TCP reset, or the rank there
has ended.

**Place:** the node with the address {peer} (its firewall, or its rank that ended), not the node of
this log

**Prove:** ./fullmesh verify -i INVENTORY (if check L2 reports VC-203, it is the firewall).
Otherwise read the log of the rank there.

**Fix:** ./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the port range and opens it to
the peers)

**Source:** read: nccl os/linux.cc:277-306, socket.cc, sgl-project/sglang#3820, NVIDIA/nccl#388
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause
from fullmesh.causes.nccl.patterns import build_connect_patterns, derive_nccl_retry

CAUSE = LogCause(
    "LG-403",
    __doc__,
    examples=(
        (
            "node1:1:2 [0] misc/socket.cc:560 NCCL WARN socketPollConnect: connect to "
            "10.0.0.4<51849> returned Connection refused, exceeded error retry count after 35 "
            "attempts"
        ),
    ),
    patterns=build_connect_patterns("Connection refused"),
    key=("peer",),
    derive=derive_nccl_retry,
    weight=70,
)
