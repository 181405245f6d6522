"""An outsider reaches the master or rendezvous port

Anyone who can reach the store can read and write its keys, and some of them are pickled objects.
Ranks unpickle these, so an outsider can run code in the job.

**Prove:** nc -zv NODE 29500

**Fix:** ansible-playbook site.yml -i INVENTORY --tags firewall.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-211", __doc__)
