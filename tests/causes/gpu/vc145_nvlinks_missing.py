"""Cases of VC-145."""

from __future__ import annotations

from dataclasses import replace

from verify_changes import H100, change_machines

from causes.faults import make_gpu_fault

VERIFICATION = {
    "no nvlink bridge": change_machines(el1=H100, ubuntu1=replace(H100, nvlink="")),
}
FAULTS = (make_gpu_fault("bridge", "3.links=12"),)
