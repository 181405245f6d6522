"""NCCL could not open its bootstrap listener

NCCL found no interface or could not listen.

**Prove:** NCCL_DEBUG=INFO

**Fix:** ansible-playbook site.yml -i INVENTORY --tags launch.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-603", __doc__)
