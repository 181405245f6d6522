"""Another process uses the master or rendezvous port

Rank 0 ends with EADDRINUSE. If the other process accepts connections but never answers, the other
ranks hang.

**Prove:** ss -ltnp 'sport = :29500'

**Fix:** End that process, or choose another port in the inventory.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import NODE, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations


def rule_free_ports(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that no other program uses the master and rendezvous ports."""
    for name in seen.plan["nodes"]:
        for port in seen.nodes.get(name, {}).get("node", {}).get("ports", []):
            # a service that runs has its own port
            if not port["error"] or port["kind"] in ("sample", "service"):
                continue
            holder = port["holder"] or port["error"]
            yield Finding(
                "VC-109",
                "L1",
                f"the {port['kind']} port {port['port']} on {name} is taken by {holder}",
                node=name,
                port=str(port["port"]),
                seen=holder,
                expected="free",
                check=f"on {name}: ss -ltnp 'sport = :{port['port']}'",
                fix=f"on {name}: end that program, or choose another port",
            )


CAUSE = Cause(
    "VC-109",
    __doc__,
    find=rule_free_ports,
    weight=540,
    explains=(Explains(("VC-207",), has_same_node),),
    cases=(
        CauseCase(
            "port-taken", "a listener on 0.0.0.0:29500 of the master's node", fields=(*NODE, "port")
        ),
    ),
)
