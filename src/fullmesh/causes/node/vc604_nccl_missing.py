"""The NCCL library is missing on some nodes

NCCL is installed on some nodes only. The ranks of the other nodes cannot start, and the installed
ones wait for them.

**Prove:** ldconfig -p | grep nccl

**Fix:** ansible-playbook site.yml -i INVENTORY --tags packages.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import explain_no_nccl


def rule_nccl_everywhere(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the library is on all nodes or on none."""
    lacking = [
        name
        for name in seen.plan["nodes"]
        if seen.nodes.get(name, {}).get("node", {}).get("nccl", {}).get("reason") == "missing"
    ]
    if lacking and not explain_no_nccl(seen):
        yield Finding(
            "VC-604",
            "L6",
            f"{join_names(lacking)} lack(s) the NCCL library that the others have",
            node=lacking[0],
            seen="no libnccl.so.2",
            expected="the same library on every node",
            fix=seen.apply("packages"),
        )


CAUSE = Cause("VC-604", __doc__, find=rule_nccl_everywhere)
