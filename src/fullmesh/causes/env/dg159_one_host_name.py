"""two nodes have one host name

NCCL makes its hash of a machine from the host name and the boot id, and tries shared memory between ranks of one
hash. Containers of one machine share the boot id, so their names alone tell them apart. Real machines differ in it,
and there schedulers, MPI and dashboards count them by name.

**Prove:** on every node: hostname; cat /proc/sys/kernel/random/boot_id

**Fix:** Give each node a name of its own, or its jobs an NCCL_HOSTID.

**Source:** NCCL, misc/utils.cc (getHostHash)
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import NAMED, has_same_node

CAUSE = Cause(
    "DG-159",
    __doc__,
    weight=690,
    explains=(Explains(NAMED, has_same_node),),
    cases=(
        CauseCase(
            "one-name",
            "hostname twins on both; an error where they share the boot id as well (containers)",
            severity="warning",
        ),
    ),
)
