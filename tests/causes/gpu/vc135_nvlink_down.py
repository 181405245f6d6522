"""Cases of VC-135."""

from __future__ import annotations

from dataclasses import replace

from gpu_samples import nvlink
from verify_changes import H100, change_machines

from causes.faults import make_gpu_fault

VERIFICATION = {
    "nvlinks down": change_machines(el1=H100, ubuntu1=replace(H100, nvlink=nvlink(16, 2))),
}
FAULTS = (make_gpu_fault("nvlink", "3.links_down=2"),)
