"""The cluster address is on a different interface than planned

GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME then name the wrong interface, and the ranks of this node
fail or announce an address that peers cannot reach.

**Prove:** ip -br address

**Fix:** ansible-playbook site.yml -i INVENTORY --tags network.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations


def rule_planned_interface(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the cluster address is on the interface of the plan."""
    for name, node in seen.plan["nodes"].items():
        where = seen.facts(name).get("addresses", {}).get(node["address"], "")
        wanted = node.get("interface", "")
        if name not in seen.left_out() and where and wanted and where != wanted:
            yield Finding(
                "VC-122",
                "L0",
                f"{name} has its cluster address on a different interface than in the plan",
                node=name,
                seen=where,
                expected=wanted,
                fix=seen.apply("network"),
            )


CAUSE = Cause("VC-122", __doc__, find=rule_planned_interface)
