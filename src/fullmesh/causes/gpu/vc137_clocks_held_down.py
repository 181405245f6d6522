"""the clocks of a GPU are held down (warning)

Heat, the power supply's brake or the board itself hold a GPU's clocks down. A collective waits for the slowest rank,
so one such card sets the pace of the whole job.

**Prove:** nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER

**Fix:** Fans, air flow, power cables and supplies of that machine.

**Source:** NVML API reference, nvmlClocksEventReasons
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-137",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-hot", "clocks held down by heat", by=RECORDED),),
)
