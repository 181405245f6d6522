"""Connections are reset after they are established

A middlebox, an intrusion filter or a proxy with a short
timeout resets established connections.

**Prove:** tcpdump -ni INTERFACE 'tcp[tcpflags] & tcp-rst != 0'

**Fix:** Find the device between the nodes, and exempt the cluster's traffic there.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-205", __doc__, weight=280)
