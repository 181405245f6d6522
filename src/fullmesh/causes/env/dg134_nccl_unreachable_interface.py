"""NCCL would take an interface that the peers cannot reach

NCCL announces the first interface that its rules allow. Bridges of containers and VPNs have addresses that other
nodes cannot reach, or that every node has.

**Prove:** NCCL_DEBUG=INFO and look for 'Bootstrap: Using'

**Fix:** Set NCCL_SOCKET_IFNAME=INTERFACE with '=' in front of the name, which means: exactly this one.

**Source:** NCCL 2.30, socket.cc; nccl#697
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "DG-134",
    __doc__,
    weight=230,
    cases=(
        CauseCase("nccl-interface", "NCCL_SOCKET_IFNAME=docker0 with a dummy docker0 that is up"),
    ),
)
