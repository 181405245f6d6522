"""NCCL could not open its bootstrap listener

NCCL found no usable interface, or it could not open a listening port. No communicator can start on
this node.

**Prove:** NCCL_DEBUG=INFO ./JOB 2>&1 | grep Bootstrap

**Fix:** ansible-playbook site.yml -i INVENTORY --tags launch.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-603", __doc__)
