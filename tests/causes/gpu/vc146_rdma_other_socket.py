"""Cases of VC-146."""

from __future__ import annotations

from causes.faults import gpu_way

FAULTS = (gpu_way("socket", "*.numa=0", "rdma_numa=1"),)
