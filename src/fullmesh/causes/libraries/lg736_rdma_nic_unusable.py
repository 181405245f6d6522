"""An RDMA NIC that a program needs is not usable

A program could not use an RDMA NIC ({detail}). The name in its settings is wrong, the container did
not get /dev/infiniband, the GID index has no entry, or the node has no RDMA NIC.

**Place:** the settings or the container of this log

**Prove:** in the job's own environment, run `ls /sys/class/infiniband`, `ibv_devinfo` and
`show_gids`

**Fix:** Name NICs that exist on this node in UCX_NET_DEVICES, NCCL_IB_HCA or the engine's setting,
set the GID index (MC_GID_INDEX, NCCL_IB_GID_INDEX) to an entry of RoCE v2 that show_gids lists or
remove the setting, and pass /dev/infiniband to the container. Without RDMA, use the engine's TCP
protocol.

**Source:** kvcache-ai/Mooncake#75, #1384, #1592, read: UCX's ucp_context.c, NCCL's topo.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-736",
    __doc__,
    examples=(
        "E0115 05:20:19.945191   309 rdma_transport.cpp:662] RdmaTransport: No available RNIC",
        (
            "[1745.1] [n:1:0] ucp_context.c:5 UCX ERROR network device 'mlx5_9' is not "
            "available, please use one or more of: 'eth0'(tcp)"
        ),
    ),
    patterns=(
        Pattern(
            "RdmaTransport: ",
            r"RdmaTransport: (?P<detail>No available RNIC|cannot initialize RDMA resources)",
        ),
        Pattern("network device '", r"(?P<detail>network device '[^']{1,40}' is not available)"),
        Pattern(
            "TOPO/NET : Only matched",
            r"(?P<detail>Only matched \d{1,4} devices, \d{1,4} requested)",
        ),
        Pattern("suitable GID found", r"(?P<detail>No suitable GID found on \S{1,40})"),
        Pattern("ibv_get_device_list failed", r"(?P<detail>ibv_get_device_list failed)"),
        Pattern("No RDMA devices found", r"(?P<detail>No RDMA devices found)"),
    ),
    survivable=True,
    weight=84,
)
