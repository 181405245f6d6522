"""An outsider reaches the master or rendezvous port

Anyone who can reach the store can read and write its keys, and some of them are pickled objects.
Ranks unpickle these, so an outsider can run code in the job.

**Prove:** nc -zv NODE 29500

**Fix:** ansible-playbook site.yml -i INVENTORY --tags firewall.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.observed.ladder import LinkResult
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.pairs import is_reached_from_outside


def rule_outsider_access(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that machines other than peers cannot reach the named ports."""
    if seen.mode == "off":
        return
    reached: dict[str, list[LinkResult]] = {}
    for record in seen.outside.get("links", []):
        if is_reached_from_outside(record):
            reached.setdefault(record["node"], []).append(record)
    for name, found in reached.items():
        ports = ", ".join(f"{port}/tcp" for port in sorted({r["port"] for r in found}))
        yield Finding(
            "VC-211",
            "L2",
            f"the controller, which is not a peer, reaches {ports} on {name}",
            node=name,
            peer="controller",
            port=ports,
            direction=f"controller -> {name}",
            seen=", ".join(f"{r['address']}:{r['port']} open" for r in found),
            expected="open to peers only",
            check=f"on {name}: firewall-cmd --get-active-zones",
            fix=seen.apply("firewall"),
        )


CAUSE = Cause("VC-211", __doc__, find=rule_outsider_access)
