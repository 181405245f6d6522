"""Open MPI: its TCP connections take a network that the peers do not reach

Open MPI's TCP transport (BTL) uses an address that does not lead to the peer: an interface of
containers, of virtual machines or of another network, or a firewall stops the port.

**Where:** between the nodes: the interface that Open MPI chose

**Prove:** mpirun --mca btl_base_verbose 30 prints the addresses; ip -brief addr on every node

**Fix:** Name the cluster's interface: mpirun --mca btl_tcp_if_include INTERFACE --mca
oob_tcp_if_include INTERFACE (or leave out docker0 and lo with btl_tcp_if_exclude).

**Source:** horovod/horovod#209; read: Open MPI's FAQ on TCP
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-724",
    __doc__,
    looks=(
        (
            "[a:06805] btl: tcp: Match incoming connection from [[27443,1],1] 172.18.0.4 with "
            "locally known IP 192.0.2.77 failed (iface 0/4)!"
        ),
        "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This should not happen.",
    ),
    patterns=(
        Pattern(
            "Match incoming connection from",
            r"btl: tcp: Match incoming connection from .{1,200} failed",
        ),
        Pattern("Open MPI failed to TCP connect to a peer"),
        Pattern("Open MPI accepted a TCP connection from what appears"),
    ),
    weight=66,
)
