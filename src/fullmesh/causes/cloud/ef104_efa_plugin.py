"""a node has EFA but lacks NCCL's plugin, so NCCL is slow

NCCL looks for libnccl-net.so, finds none, and talks TCP over a device that could do several hundred Gbit/s.

**Prove:** NCCL_DEBUG=INFO in the job: NET/Plugin; ldconfig -p | grep nccl-net

**Fix:** Install Amazon's EFA installer (1.39 or newer brings the plugin), and reboot where it brought a driver. Where
the plugin is there and out of sight, name its folder in /etc/ld.so.conf.d and run ldconfig.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-104", __doc__)
