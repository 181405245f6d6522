"""A login sets a variable of the plan to another value

The launchers read `/etc/fullmesh/env`, but variables that the caller already has win. `/etc/environment` sets them for
every login, profile files for login shells. A job that a login starts there uses another master, port or interface than
the other nodes.

**Prove:** ssh NODE env | grep -E 'MASTER_|IFNAME|FULLMESH_|NNODES|NODE_RANK', and compare with /etc/fullmesh/env

**Fix:** Remove the variable from the file that the message names. To change it for all jobs, change the inventory.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

INTERFACE_CODES = ("DG-119", "DG-120", "DG-121", "DG-134", "DG-161", "DG-189")
MASTER_CODES = ("DG-124", "DG-125", "DG-126", "DG-127", "DG-128")

CAUSE = Cause(
    "VC-321",
    __doc__,
    weight=600,
    explains=(Explains(INTERFACE_CODES + MASTER_CODES, has_same_node),),
    cases=(
        CauseCase(
            "login-overrides-plan", "GLOO_SOCKET_IFNAME=eth0 in /etc/environment, configured"
        ),
    ),
)
