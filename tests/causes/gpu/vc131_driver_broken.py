"""Cases of VC-131."""

from __future__ import annotations

from gpu_samples import Machine
from records import EL1 as EL
from records import UBUNTU1 as UB
from verify_changes import H100, SeenChange, change_machines

from causes.changes import Change, combine, make_gpus, set_survey_part
from causes.faults import make_gpu_fault

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


def break_smi(said: str, code: int) -> SeenChange:
    """Let nvidia-smi fail with a message, as the real one does with the simulated NVML."""
    return change_machines(el1=H100, ubuntu1=Machine(said, code, bus=1, device=True))


VERIFICATION = {
    "driver changed under its module": break_smi(
        "Failed to initialize NVML: Driver/library version mismatch\n", 18
    ),
    "gpu lost": break_smi(
        "Unable to determine the device handle for GPU1: GPU is lost.  Reboot\n", 15
    ),
    "module not loaded": break_smi(
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA\n", 9
    ),
    "no gpu started": break_smi("No devices were found\n", 6),
    "smi says nothing": break_smi("", 1),
}
CHANGES = {
    "driver changed under its module": Change(
        UB,
        combine(
            set_survey_part("gpus", make_gpus(8), EL),
            set_survey_part(
                "gpus", {**make_gpus(0), "present": True, "failed": True, "said": MISMATCH}
            ),
        ),
    ),
}
FAULTS = (make_gpu_fault("driver", "error=18"),)
