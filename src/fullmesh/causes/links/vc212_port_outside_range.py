"""The kernel assigned a port outside the data range

The pinned port range has no effect on new sockets, so jobs use ports that the firewall does not
open.

**Prove:** sysctl net.ipv4.ip_local_port_range

**Fix:** ansible-playbook site.yml -i INVENTORY --tags tuning.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-212", __doc__)
