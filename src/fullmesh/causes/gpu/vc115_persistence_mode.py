"""Persistence mode is off (warning)

The driver is unloaded after each job. The next job starts slower, and counters and settings are
lost.

**Prove:** nvidia-smi -q | grep Persistence

**Fix:** systemctl enable --now nvidia-persistenced (role nvidia_driver does it)

**Source:** NVIDIA, Driver Persistence
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.cards import list_gpus
from fullmesh.verify.model import ClusterObservations


def rule_persistence_mode(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the driver stays loaded between jobs. A driver without this mode (WSL) reports nothing."""
    off = [
        name
        for name in seen.plan["nodes"]
        if any(gpu.get("persistence") == "Disabled" for gpu in list_gpus(seen, name))
    ]
    if off:
        yield Finding(
            "VC-115",
            "L1",
            f"persistence mode is off on {join_names(off)}: every job waits for the driver, its counters are lost",
            node=off[0],
            peer=join_names(off[1:]),
            seen="Disabled",
            expected="Enabled",
            fix=f"on {off[0]}: systemctl enable --now nvidia-persistenced (role nvidia_driver does it)",
            severity=WARNING,
        )


CAUSE = Cause(
    "VC-115",
    __doc__,
    find=rule_persistence_mode,
    severity=WARNING,
    cases=(CauseCase("gpu-persistence", "persistence mode is off", by=RECORDED),),
)
