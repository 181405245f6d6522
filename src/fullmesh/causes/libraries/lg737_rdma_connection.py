"""An RDMA connection to a peer fails

An RDMA connection between two nodes could not be made or broke ({detail}). The NICs of both ends
cannot reach each other: they are in different networks, use different kinds of GIDs, or a switch
drops the packets.

**Place:** the network between the RDMA NICs of both nodes

**Prove:** compare `show_gids` on both nodes, then run `ibv_rc_pingpong -g INDEX PEER` between the
same NICs

**Fix:** Let each node use NICs of one network (NCCL_IB_HCA, UCX_NET_DEVICES, NVSHMEM_HCA_LIST, the
engine's device list), remove fixed GID indexes, and open UDP 4791 in switch ACLs.

**Source:** kvcache-ai/Mooncake#204, sgl-project/sglang#7888, read: UCX's ib_mlx5_log.c, NVSHMEM's
transports
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-737",
    __doc__,
    examples=(
        (
            "E0331 12:03:04.222625 56060 rdma_endpoint.cpp:385] [Handshake] Failed to modify QP "
            "to RTR, check mtu, gid, peer lid, peer qp num: Connection timed out [110]"
        ),
        (
            "[1745.1] [n:1:0] ib_mlx5_log.c:5 UCX ERROR Transport retry count exceeded on "
            "mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)"
        ),
    ),
    patterns=(
        Pattern("Failed to modify QP to", r"(?P<detail>Failed to modify QP to (?:RTR|INIT|RTS))"),
        Pattern(
            "Transport retry count exceeded",
            r"(?P<detail>Transport retry count exceeded on [^\s/]{1,40})",
        ),
        Pattern("ibv_modify_qp failed", r"(?<!Call to )(?P<detail>ibv_modify_qp failed)"),
        Pattern("error modifying QP to", r"UCX +ERROR +(?P<detail>error modifying QP to \w{1,6})"),
        Pattern("ibv_query_gid failed", r"(?P<detail>ibv_query_gid failed with [\w ]{3,60})"),
    ),
    weight=80,
)
