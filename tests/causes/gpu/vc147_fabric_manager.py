"""Cases of VC-147."""

from __future__ import annotations

from dataclasses import replace

from verify_changes import H100, change_machines

from causes.faults import make_gpu_fault

MANAGER = "Fabric Manager version is : {}\n"


HGX = replace(H100, switches=4, manager=("active", MANAGER.format("580.95.05")))


VERIFICATION = {
    "fabric manager of another version": change_machines(
        el1=HGX, ubuntu1=replace(HGX, manager=("active", MANAGER.format("580.82.07")))
    ),
}
FAULTS = (make_gpu_fault("manager", "fm_version=580.82.07"),)
