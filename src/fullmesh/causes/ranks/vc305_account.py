"""the account of the ranks, which has no rights, cannot be had or cannot run torch's Python

The ranks run as an account without rights: a container without those numbers, or a Python only for root.

**Prove:** cat /proc/self/uid_map; namei -l /opt/fullmesh/venv/bin/python

**Fix:** Map 61184 to 65519 into the container; open the folders of the interpreter to all (chmod o+rx).
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-305", __doc__)
