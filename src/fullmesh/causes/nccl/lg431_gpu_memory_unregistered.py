"""RDMA: the driver cannot register GPU memory (Bad address)

The RDMA driver refused to register GPU memory ({detail}: Bad address). The kernel module
nvidia_peermem is not loaded or does not match the driver, or this GPU does not support GPUDirect
RDMA.

**Place:** the node of this log

**Prove:** lsmod | grep nvidia_peermem (the job works with NCCL_NET_GDR_LEVEL=LOC, which switches
GPUDirect off)

**Fix:** Run modprobe nvidia_peermem (the module of the loaded driver), or set
NCCL_NET_GDR_LEVEL=LOC to leave GPUDirect off.

**Source:** read: NCCL net_ib, NVIDIA's GPUDirect RDMA guide
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-431",
    __doc__,
    examples=(
        (
            "node1:1:2 [0] misc/ibvwrap.cc:160 NCCL WARN Call to ibv_reg_mr_iova2 failed with "
            "error Bad address errno 14"
        ),
        (
            "E0429 07:15:48.497743  1710 rdma_context.cpp:201] Failed to register memory "
            "0x7f4680000000: Bad address [14]"
        ),
    ),
    patterns=(
        Pattern(
            "Bad address", r"(?P<detail>ibv_reg_(?:dmabuf_)?mr\w{0,12})[ (].{0,160}Bad address"
        ),
        # Mooncake
        Pattern("Bad address", r"(?P<detail>Failed to register memory) \S{1,40}: Bad address"),
    ),
    weight=88,
)
