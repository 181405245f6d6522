"""Error counters of an RDMA device or its NIC grew although all messages arrived

Lost, late or reordered packets are sent again, so messages arrive, but jobs are slow. A dozen
messages between idle devices should not make these counters grow. On a loaded network, another
job's traffic can cause it.

If a counter of discarded packets grew (`rx_discards_phy`, `rx_prio3_discards`,
`rx_total_discard_pkts`, `rx_dropped.nic`), the packets arrived, and the NIC had no free buffer. The
switch sends faster than the node reads, and flow control does not stop it. A counter of CRC or
symbol errors grows if a cable or an optical module damages packets.

**Prove:** rdma statistic show link DEVICE/1 && ethtool -S INTERFACE

**Fix:** Check cable and optics (`ethtool -m`), and flow control on NICs and switches (PFC, ECN).

**Source:** NVIDIA, Understanding mlx5 Linux counters, Understanding mlx5 ethtool counters; the drivers
mlx5, bnxt_en and ice in Linux 6.12
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-230",
    __doc__,
    severity=WARNING,
    weight=50,
    explains=(Explains(("VC-714",)),),
    cases=(
        CauseCase(
            "rdma-error-counters",
            "packets arrive out of order and all messages arrive",
            by=RECORDED,
        ),
    ),
)
