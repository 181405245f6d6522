"""Peers reach a port that the plan does not open

The firewall allows more than the plan.

**Prove:** firewall-cmd --list-all-zones

**Fix:** ansible-playbook site.yml -i INVENTORY --tags firewall.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-210", __doc__)
