"""NCCL: NCCL_SOCKET_IFNAME matches no interface

NCCL found no interface for its bootstrap: NCCL_SOCKET_IFNAME matches no interface that is up on
this node, or the container has only loopback. An address family that does not exist has the same
cause, or comes from a peer with another version of NCCL.

**Place:** the node of this log (if the address family does not exist, the node that sent it)

**Prove:** on that node, compare `ip -brief link` with `env | grep NCCL_SOCKET_IFNAME`, or run
./fullmesh verify -i INVENTORY (VC-104, VC-601, VC-603)

**Fix:** ./fullmesh apply -i INVENTORY --tags launch (role cluster_env sets each node's own
interface). Use one NCCL version on all nodes.

**Source:** measured with the library 2.32.3, NVIDIA/nccl#1837 (before 2.28 a nonsense address
family), #1267
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-406",
    __doc__,
    examples=(
        "node1:1:1 [0] bootstrap.cc:94 NCCL WARN Bootstrap : no socket interface found",
        (
            "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor "
            "AF_INET6(10)"
        ),
    ),
    patterns=(
        Pattern("no socket interface found"),
        Pattern("is neither AF_INET(2) nor AF_INET6(10)"),
        Pattern("no NCCL_SOCKET_IFNAME interface found"),
        # NCCL before 2.5 continued without an interface
        Pattern("Socket creation failed : Address family not supported"),
    ),
    explains=(Explains(("LG-402", "LG-403", "LG-404")),),
    weight=92,
    recorded=(
        RecordedLog(
            "nccl no interface, before 2.28",
            (
                "ncclInternalError: Internal check failed.\n"
                "Last error:\n"
                "ncclSocketInit: connecting to address  with family 59936 is neither "
                "AF_INET(2) nor AF_INET6(10)"
            ),
        ),
        RecordedLog(
            "no interface at all, old NCCL",
            (
                "node1:3171:3171 [0] include/socket.h:311 WARN Socket creation failed : "
                "Address family not supported by protocol"
            ),
        ),
    ),
)
