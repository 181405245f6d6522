"""RDMA is up, the TCP ports that it needs beside are shut

NCCL opens a TCP listener for every RDMA connection to exchange addresses; RDMA tests that pass prove nothing about
it.

**Prove:** nft list ruleset; ./fullmesh verify

**Fix:** Open the data range between the nodes, as for a job without RDMA.

**Source:** NCCL 2.30, net_ib/connect.cc
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, has_same_blocked_ports

CAUSE = Cause(
    "DG-117",
    __doc__,
    weight=720,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "rdma-tcp",
            "a blocked link between nodes whose RDMA ports are active",
            by=RECORDED,
            fields=LINK,
        ),
    ),
)
