"""Cases of VC-111."""

from __future__ import annotations

from gpu_samples import Machine, smi
from verify_changes import ON, machines, swap

VERIFICATION = {
    "a gpu less": machines(ubuntu1=Machine()),
    "other model": machines(ubuntu1=Machine(smi("tesla-t4", **ON), bus=1)),
    "other driver": swap(driver_version="570.1"),
}
