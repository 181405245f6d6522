"""the next boot changes arguments of the kernel (warning)

Arguments that were typed in at the boot menu, or changed in the files since, make the next boot another machine:
other names of cards (net.ifnames), no IPv6, another IOMMU, other huge pages.

**Prove:** cat /proc/cmdline; grubby --info=DEFAULT (EL); grep vmlinuz /boot/grub/grub.cfg | head -1 (Debian, Ubuntu)

**Fix:** grubby --update-kernel=ALL --args=... (EL); /etc/default/grub and update-grub (Debian, Ubuntu).
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

# dg269_driver_missing finds it, node by node.
CAUSE = Cause(
    "DG-169",
    __doc__,
    severity=WARNING,
    weight=20,
    cases=(CauseCase("boot-arguments", "the entry lacks iommu=pt", by=RECORDED),),
)
