"""A node has EFA but lacks NCCL's plugin, so NCCL is slow

NCCL does not find libnccl-net.so and uses TCP, although the device can carry several hundred
Gbit/s.

**Prove:** ldconfig -p | grep nccl-net, and NET/Plugin in the job's log with NCCL_DEBUG=INFO

**Fix:** Install Amazon's EFA installer (1.39 or newer includes the plugin), and reboot if it
installed a driver. If the plugin is installed, add its folder to /etc/ld.so.conf.d and run
ldconfig.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-104", __doc__)
