"""Gloo: a data connection failed and an old torch hid the reason ('no error')

Two ranks could not connect on a Gloo data port. Up to about 2.6, torch prints 'no error' for every
failed connect, whether the packets were dropped, rejected or refused. There are 2 possible causes:
a rank announced an address that its peers cannot reach (Gloo uses the interface that the host name
leads to), or a firewall blocks the port.

**Place:** between two nodes: a node whose host name resolves to loopback or to another interface, else
the firewall of the node with the lower IP, which listens

**Prove:** ./fullmesh verify -i INVENTORY (check L2 tries every link in both directions: VC-201
drop, VC-202 reject, VC-203 refused), and on every node: getent ahosts "$(hostname)"

**Fix:** ./fullmesh apply -i INVENTORY --tags network,launch (host names resolve to cluster addresses,
and GLOO_SOCKET_IFNAME names the cluster interface). If only the master port is open: ./fullmesh
apply -i INVENTORY --tags tuning,firewall (pins the data ports and opens them to the peers).

**Source:** gloo 5ca057d (2025-02-25, object slicing), sgl-project/sglang#3226,
gpustack/gpustack#2125
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-101",
    __doc__,
    examples=(
        (
            "[rank1]:[E528 08:52:46.164295950 ProcessGroupGloo.cpp:145] Gloo connectFullMesh "
            "failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error"
        ),
    ),
    patterns=(
        Pattern("pair.cc:144] no error"),
        Pattern("connectFullMesh failed with", r"connectFullMesh failed with .{0,300}?\] no error"),
    ),
    weight=40,
    recorded=(
        RecordedLog(
            "seed 1: no error",
            (
                "[rank1]:[E528 08:52:46.164 ProcessGroupGloo.cpp:145] Gloo connectFullMesh "
                "failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no "
                "error"
            ),
        ),
    ),
)
