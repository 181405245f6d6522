"""not finished, the machine is busy: a deadline of the check's own ended

The ranks of the check did not get through in time, while far more wanted to run than the node has processors, the
machine's owner gave them to others (steal), or a control group's limit stopped them (throttled). The check's
deadlines grow with its ranks and with the load that it sees before; what began afterwards it cannot know. It says
nothing about the network.

**Prove:** uptime; top (st); nr_throttled in cpu.stat below /sys/fs/cgroup

**Fix:** Run the check again when less runs there, or give it more time: the message has the command.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-306", __doc__)
