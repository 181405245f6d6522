# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Measure the rates between the RDMA devices of two nodes. Standard library only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from . import rdma

if TYPE_CHECKING:
    from ..schema.ladder import ProbeOrigin, RdmaRate, RdmaTarget


def measure_rdma_rates(targets: list[RdmaTarget], me: ProbeOrigin, limit: float) -> list[RdmaRate]:
    """Measure the rates of all pairs at the same time, until *limit*. Pairs that fail have no rate."""
    ends = min(limit, time.monotonic() + rdma.SECONDS)
    return [
        {
            "node": said["node"],
            "device": said["device"],
            "peer_device": said["peer_device"],
            "mbit_s": said["mbit_s"],
        }
        for said in rdma.try_targets(targets, me, ends, rate=True)
        if said.get("mbit_s")
    ]
