# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Measure the rate between two RDMA devices. Standard library only."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING

from . import rdma

if TYPE_CHECKING:
    from ..schema.ladder import ProbeOrigin, RdmaRate, RdmaTarget

LEAST = 4.0  # a measurement that would have less time is not made


def measure_rdma_rates(targets: list[RdmaTarget], me: ProbeOrigin, limit: float) -> list[RdmaRate]:
    """Measure the rate of each pair, one after the other, until *limit*. Pairs that fail have no rate."""
    found: list[RdmaRate] = []
    for target in targets:
        ends = min(limit, time.monotonic() + rdma.SECONDS)
        if time.monotonic() > ends - LEAST:
            break
        with contextlib.suppress(OSError):
            child, reading = rdma.run_apart(
                partial(rdma.try_target, target, me, ends, rate=True), ends
            )
            said = rdma.read_apart(child, reading, target)
            if said.get("mbit_s"):
                found.append(
                    {
                        "node": target["node"],
                        "device": target["device"],
                        "peer_device": target["peer_device"],
                        "mbit_s": said["mbit_s"],
                    }
                )
    return found
