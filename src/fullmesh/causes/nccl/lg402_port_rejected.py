"""NCCL: a peer rejects the connection (No route to host)

NCCL's connection to {peer} {port_note} was rejected: a firewall answers with REJECT, as firewalld
does by default.

**Place:** the firewall of the node with the address {peer}, not the node of this log

**Prove:** ./fullmesh verify -i INVENTORY (check L2 must report VC-202). If `ip neigh show {peer}`
has no entry, the host is down.

**Fix:** ./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the port range and opens it to
the peers)

**Source:** read: nccl os/linux.cc:277-306, socket.cc, sgl-project/sglang#3820, NVIDIA/nccl#388
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, RecordedLog
from fullmesh.causes.nccl.patterns import build_connect_patterns, derive_nccl_retry

CAUSE = LogCause(
    "LG-402",
    __doc__,
    examples=(
        (
            "node5:240:240 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to "
            "10.0.0.4<56849> returned 113(No route to host) errno 115(Operation now in progress)"
        ),
    ),
    patterns=build_connect_patterns("No route to host"),
    key=("peer",),
    derive=derive_nccl_retry,
    weight=76,
    recorded=(
        RecordedLog(
            "nccl reject",
            (
                "node5:240:240 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to "
                "10.0.0.4<56849> returned 113(No route to host) errno 115(Operation now in "
                "progress)\n"
                "RuntimeError: NCCL error in: "
                "../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, unhandled system error"
            ),
            folded=("LG-422",),
        ),
        RecordedLog(
            "nccl last retry",
            (
                "zgiot:1183664:1184669 [0] NCCL INFO socketPollConnect: connect returned No "
                "route to host, retrying (34/34) after sleep for 3400 msec"
            ),
        ),
        RecordedLog(
            "nccl 2.24 to 2.26 gives up",
            (
                "zgiot:1183664:1184669 [0] misc/socket.cc:543 NCCL WARN socketPollConnect: connect "
                "returned No route to host, exceeded error retry count (35)"
            ),
        ),
    ),
)
