"""Cases of VC-131."""

from __future__ import annotations

from gpu_samples import Machine
from records import EL1 as EL
from records import UBUNTU1 as UB
from verify_changes import H100, SeenChange, change_machines

from causes.changes import Change, gpus, put, together
from causes.faults import gpu

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


def broken_smi(said: str, code: int) -> SeenChange:
    """nvidia-smi fails in these words, which are the real one's over the stand-in."""
    return change_machines(el1=H100, ubuntu1=Machine(said, code, bus=1, device=True))


VERIFICATION = {
    "driver changed under its module": broken_smi(
        "Failed to initialize NVML: Driver/library version mismatch\n", 18
    ),
    "gpu lost": broken_smi(
        "Unable to determine the device handle for GPU1: GPU is lost.  Reboot\n", 15
    ),
    "module not loaded": broken_smi(
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA\n", 9
    ),
    "no gpu started": broken_smi("No devices were found\n", 6),
    "smi says nothing": broken_smi("", 1),
}
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
