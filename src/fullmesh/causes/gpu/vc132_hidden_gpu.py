"""A GPU is on the PCI bus, and the driver does not list it

The driver could not initialize the GPU, or lost it. Ranks that use its number fail with `invalid
device ordinal`.

**Prove:** lspci -d 10de: && nvidia-smi -L && dmesg | grep -i -E 'nvrm|xid'

**Fix:** Switch the machine off and on. If the GPU is still missing, check its power cable and seat,
or replace it.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "VC-132",
    __doc__,
    cases=(CauseCase("gpu-hidden", "eight on the bus, the driver shows seven", by=RECORDED),),
)
