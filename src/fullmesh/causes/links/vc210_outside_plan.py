"""Peers reach a port that the plan does not open

The firewall allows more than the plan.

**Prove:** firewall-cmd --list-all-zones

**Fix:** ansible-playbook site.yml -i INVENTORY --tags firewall.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import Finding
from fullmesh.verify.blocked import OPEN, get_link_records
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.probe_wants import ONLY_MODE


def rule_outside_port(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that peers cannot reach ports outside the plan."""
    if seen.mode != ONLY_MODE:
        return
    for source in seen.plan["nodes"]:
        for record in get_link_records(seen, source):
            if record["kind"] == "outside" and record["verdict"] == OPEN:
                yield Finding(
                    "VC-210",
                    "L2",
                    f"{source} reaches {record['node']} on a port that the plan does not open",
                    node=record["node"],
                    peer=source,
                    port=f"{record['port']}/tcp",
                    direction=f"{source} -> {record['node']}",
                    seen=OPEN,
                    expected="shut",
                    check=f"on {record['node']}: firewall-cmd --list-all-zones",
                    fix=seen.apply("firewall"),
                )


CAUSE = Cause("VC-210", __doc__, find=rule_outside_port)
