"""The next boot uses other kernel arguments (warning)

Arguments that were typed at the boot menu are lost at the next boot, and changes in the files since
then apply. This can rename interfaces (net.ifnames), disable IPv6, or change the IOMMU or huge
pages.

**Prove:** cat /proc/cmdline && (grubby --info=DEFAULT || grep vmlinuz /boot/grub/grub.cfg | head
-1)

**Fix:** On EL, run grubby --update-kernel=ALL --args=... On Debian and Ubuntu, edit
/etc/default/grub and run update-grub.
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
