"""A rank listens outside the data range

A rank listens on a port outside the range that the firewall opens, so its peers cannot reach it.
The kernel of the node takes its ports from another range.

**Prove:** sysctl net.ipv4.ip_local_port_range

**Fix:** ansible-playbook site.yml -i INVENTORY --tags tuning.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-501", __doc__)
