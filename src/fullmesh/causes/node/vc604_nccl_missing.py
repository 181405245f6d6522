"""The NCCL library is missing on some nodes

NCCL is installed on some nodes only. The ranks of the other nodes cannot start, and the installed
ones wait for them.

**Prove:** ldconfig -p | grep nccl

**Fix:** ansible-playbook site.yml -i INVENTORY --tags packages.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-604", __doc__)
