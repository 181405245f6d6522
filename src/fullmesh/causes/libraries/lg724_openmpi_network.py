"""Open MPI: its TCP connections use a network that the peers cannot reach

Open MPI's TCP transport (BTL) uses an address that does not lead to the peer, such as an address of
a container, a virtual machine or another network. Or a firewall blocks the port.

**Place:** between the nodes: the interface that Open MPI chose

**Prove:** mpirun --mca btl_base_verbose 30 prints the addresses (compare: ip -brief addr on every
node)

**Fix:** Name the cluster's interface: mpirun --mca btl_tcp_if_include INTERFACE --mca
oob_tcp_if_include INTERFACE (or exclude docker0 and lo with btl_tcp_if_exclude).

**Source:** horovod/horovod#209, read: Open MPI's FAQ on TCP
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-724",
    __doc__,
    examples=(
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
        Pattern("unable to complete a TCP connection", r"was unable to complete a TCP connection"),
        Pattern(
            "unexpected process identifier",
            r"btl_tcp_endpoint.{1,80}received unexpected process identifier",
        ),
    ),
    weight=66,
)
