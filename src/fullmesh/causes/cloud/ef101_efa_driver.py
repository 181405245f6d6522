"""an EFA device has no driver

The device is on the PCI bus and no driver has it, so nothing can use it.

**Prove:** lspci -k -d 1d0f:; dmesg | grep efa

**Fix:** modprobe efa. Install Amazon's EFA installer (1.39 or newer brings the plugin), and reboot where it brought a
driver.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-101", __doc__)
