"""connections are cut off after they were made

Connections are made and then cut: a middlebox, an intrusion filter, a proxy with a short temper.

**Prove:** tcpdump -ni INTERFACE 'tcp[tcpflags] & tcp-rst != 0'

**Fix:** Find what stands between the nodes.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-205", __doc__, weight=280)
