"""NCCL: RDMA NICs of different kinds are paired

NCCL paired {own} with {other}, and one of them uses InfiniBand, the other Ethernet (RoCE).

**Place:** the setting NCCL_IB_HCA on the nodes

**Prove:** on all nodes: ibv_devinfo | grep -E 'hca_id|link_layer'

**Fix:** Name NICs of one kind in NCCL_IB_HCA, on each node with its own names.

**Source:** read: NCCL's net_ib.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-452",
    __doc__,
    examples=(
        (
            "n:1:2 [0] net_ib.cc:5 NCCL WARN NET/IB : Attempted to connect incompatible devices: "
            "[0]mlx5_0:1/RoCE and [0]mlx5_3:1/IB. Try selecting NICs of only one link type using "
            "NCCL_IB_HCA"
        ),
    ),
    patterns=(
        Pattern(
            "incompatible devices",
            (
                r"Attempted to (?:connect|merge) incompatible devices: \[\d{1,3}\](?P<own>\S{1,60}) "
                r"and \[\d{1,3}\](?P<other>[^\s.]{1,60})"
            ),
        ),
    ),
    weight=90,
)
