"""The check did not finish, because the node is too busy: one of its own deadlines ended

The ranks of the check did not finish in time. Meanwhile, far more tasks wanted to run than the node
has CPUs, the hypervisor gave the CPUs to other machines (steal), or a control group's limit stopped
the ranks (throttled). The deadlines grow with the number of ranks and with the load at the start,
but not with load that begins later. This result says nothing about the network.

**Prove:** uptime && grep -r nr_throttled /sys/fs/cgroup --include=cpu.stat && top -bn1 | head -4

**Fix:** Run the check again when the node is less busy, or give it more time with the command in
the message.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-306", __doc__)
