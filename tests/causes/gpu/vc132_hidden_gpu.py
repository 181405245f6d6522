"""Cases of VC-132."""

from __future__ import annotations

from gpu_samples import Machine, smi
from verify_changes import ON, change_machines

from causes.faults import make_gpu_fault

VERIFICATION = {
    "gpu not shown": change_machines(ubuntu1=Machine(smi(**ON), bus=2)),
}
FAULTS = (make_gpu_fault("hidden", "gpus=7"),)
