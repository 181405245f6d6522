"""Error counters of an RDMA device grew although all messages arrived

Lost, late or reordered packets are sent again, so messages arrive, but jobs are slow. A dozen
messages between idle devices should not make these counters grow. On a loaded network, another
job's traffic can cause it.

**Prove:** rdma statistic show link DEVICE/1

**Fix:** Check cable and optics (`ethtool -m`), and flow control on NICs and switches (PFC, ECN).

**Source:** NVIDIA, Understanding mlx5 Linux counters
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
