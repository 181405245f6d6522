"""NCCL could not open its bootstrap listener

NCCL found no usable interface, or it could not open a listening port. No communicator can start on
this node.

**Prove:** NCCL_DEBUG=INFO ./JOB 2>&1 | grep Bootstrap

**Fix:** ansible-playbook site.yml -i INVENTORY --tags launch.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import list_nccl_answers


def rule_nccl_listener(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that NCCL, without a GPU, opens its bootstrap listener."""
    for name, said in list_nccl_answers(seen):
        if said["reason"]:
            yield Finding(
                "VC-603",
                "L6",
                f"NCCL on {name} could not open its bootstrap listener ({said['reason']})",
                node=name,
                seen=said["error"],
                expected="an address and a port",
                check=f"on {name}: set NCCL_DEBUG=INFO and look for 'Bootstrap'",
                fix=seen.apply("packages"),
            )


CAUSE = Cause("VC-603", __doc__, find=rule_nccl_listener)
