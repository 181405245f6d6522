"""Cases of VC-111."""

from __future__ import annotations

from gpu_samples import Machine, smi
from verify_changes import ON, change_machines, change_smi

VERIFICATION = {
    "a gpu less": change_machines(ubuntu1=Machine()),
    "other model": change_machines(ubuntu1=Machine(smi("tesla-t4", **ON), bus=1)),
    "an AMD GPU less": change_machines(el1=Machine(amd=(0, 0)), ubuntu1=Machine(amd=(0,))),
    "other driver": change_smi(driver_version="570.1"),
}
