"""NCCL: the RDMA driver cannot take GPU memory by DMA-BUF

NCCL asked the RDMA driver to register GPU memory as DMA-BUF, and the driver of this node cannot.

**Where:** the node of this log: its kernel, its OFED, or a container whose libibverbs is older than
the driver

**Prove:** uname -r (5.12 and newer have it); ofed_info -s; modinfo nvidia_peermem

**Fix:** NCCL_DMABUF_ENABLE=0 with nvidia_peermem loaded, or a newer kernel or OFED; a newer NCCL
takes the other way by itself.

**Source:** NVIDIA/nccl#778
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-427",
    __doc__,
    looks=(
        (
            "misc/ibvwrap.cc:288 NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation "
            "not supported"
        ),
    ),
    patterns=(
        Pattern(
            "ibv_reg_dmabuf_mr",
            r"ibv_reg_dmabuf_mr failed with .{0,40}?Operation not supported",
        ),
    ),
    weight=88,
    recorded=(
        RecordedLog(
            "no DMA-BUF",
            (
                "node1:1:2 [0] misc/ibvwrap.cc:288 NCCL WARN Call to ibv_reg_dmabuf_mr failed "
                "with error Operation not supported"
            ),
        ),
    ),
)
