"""RDMA: the RDMA driver cannot register GPU memory through DMA-BUF

NCCL or UCX asked the RDMA driver to register GPU memory as DMA-BUF, and the driver of this node does not
support that.

**Place:** the node of this log: its kernel, its OFED, or a container whose libibverbs is older than
the driver

**Prove:** uname -r (DMA-BUF needs 5.12 or newer), then `ofed_info -s` and `modinfo nvidia_peermem`

**Fix:** Set NCCL_DMABUF_ENABLE=0 and load nvidia_peermem, or install a newer kernel or OFED. A
newer NCCL falls back by itself.

**Source:** NVIDIA/nccl#778
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-427",
    __doc__,
    examples=(
        (
            "misc/ibvwrap.cc:288 NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation "
            "not supported"
        ),
    ),
    patterns=(
        Pattern(
            "ibv_reg_dmabuf_mr",
            r"ibv_reg_dmabuf_mr(?: failed with .{0,40}?Operation not supported"
            r"|\([^)\n]{5,120}\) failed: (?:Operation not supported|Unknown error 524))",
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
