"""NCCL_SOCKET_IFNAME leaves the cluster's card out

A value that begins with ^ names the cards that NCCL must not take, by their beginnings. With the cluster's own card
among them NCCL announces another one: slow where the peers are reached over it, a hang where they are not.

**Prove:** NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET; the line 'Bootstrap: Using'

**Fix:** Name the card that is meant: NCCL_SOCKET_IFNAME==INTERFACE.

**Source:** NCCL, os/linux.cc
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-161",
    __doc__,
    severity=WARNING,
    weight=160,
    cases=(CauseCase("ifname-left-out", "NCCL_SOCKET_IFNAME=^eth1 in /etc/environment"),),
)
