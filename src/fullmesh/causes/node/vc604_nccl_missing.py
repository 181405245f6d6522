"""the NCCL library is missing on some nodes

NCCL is there on some nodes only.

**Prove:** ldconfig -p | grep nccl

**Fix:** ansible-playbook site.yml -i INVENTORY --tags packages.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-604", __doc__)
