"""An EFA device has no driver

The device is on the PCI bus, but no driver is bound to it, so NCCL cannot use it.

**Prove:** lspci -k -d 1d0f: && dmesg | grep efa

**Fix:** modprobe efa. If that fails, install Amazon's EFA installer (1.39 or newer includes NCCL's
plugin) and reboot.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-101", __doc__)
