"""The host name differs from the planned one

torchrun announces the host name to the peers, which cannot resolve it or resolve it to another
machine.

**Prove:** hostname

**Fix:** ansible-playbook site.yml -i INVENTORY --tags network.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations


def rule_planned_hostname(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the host name is the one in the plan, if the plan has one."""
    for name, node in seen.plan["nodes"].items():
        wanted = node.get("hostname", "")
        found = seen.facts(name).get("names", {}).get("hostname", "")
        if wanted and found != wanted:
            yield Finding(
                "VC-123",
                "L0",
                f"the host name of {name} differs from the plan",
                node=name,
                seen=found,
                expected=wanted,
                fix=seen.apply("network"),
            )


CAUSE = Cause("VC-123", __doc__, find=rule_planned_hostname)
