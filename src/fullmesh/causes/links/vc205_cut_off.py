"""Connections are cut off after they were made

Connections are established and then reset. A middlebox, an intrusion filter or a proxy with a short
timeout does this.

**Prove:** tcpdump -ni INTERFACE 'tcp[tcpflags] & tcp-rst != 0'

**Fix:** Find the device between the nodes, and exempt the cluster's traffic there.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-205", __doc__, weight=280)
