"""Cases of VC-131."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, gpus, put, together
from causes.faults import gpu

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


CHANGES = {
    "driver changed under its module": Change(
        UB,
        together(
            put("gpus", gpus(8), EL),
            put("gpus", {**gpus(0), "present": True, "failed": True, "said": MISMATCH}),
        ),
    ),
}
FAULTS = (gpu("driver", "error=18"),)
