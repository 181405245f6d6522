"""a GPU is on the bus and the driver does not show it

A card on the PCI bus that the driver could not start, or that fell off the bus: the ranks of that node that count on
it fail with `invalid device ordinal`.

**Prove:** lspci -d 10de:; nvidia-smi -L; dmesg | grep -i -E 'nvrm|xid'

**Fix:** Switch the machine off and on; look at the card's power and seat; replace it.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "VC-132",
    __doc__,
    cases=(CauseCase("gpu-hidden", "eight on the bus, the driver shows seven", by=RECORDED),),
)
