"""The clocks of a GPU are reduced (warning)

Heat, a power brake of the power supply, or the board itself reduce the GPU's clocks. A collective
waits for the slowest rank, so this GPU slows down the whole job.

**Prove:** nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER

**Fix:** Repair the fans, air flow, power cables or power supplies of that machine.

**Source:** NVML API reference, nvmlClocksEventReasons
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-137",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-hot", "clocks reduced by heat", by=RECORDED),),
)
