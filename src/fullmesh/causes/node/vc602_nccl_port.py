"""NCCL listens outside the data range

NCCL's listener has a port outside the range that the firewall opens, so the peers cannot reach it.

**Prove:** sysctl net.ipv4.ip_local_port_range

**Fix:** ansible-playbook site.yml -i INVENTORY --tags tuning.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-602", __doc__)
