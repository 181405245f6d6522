"""an outsider reaches the master or rendezvous port

Who reaches the store can read and write its keys: pickled objects among them.

**Prove:** nc -zv NODE 29500

**Fix:** ansible-playbook site.yml -i INVENTORY --tags firewall.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-211", __doc__)
