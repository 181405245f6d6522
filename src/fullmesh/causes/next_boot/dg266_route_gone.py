"""A node will lose a route to its peers at the next boot (warning)

A route from ip route add is lost at the next boot, or when the interface's network service
configures it again. Fullmesh checks routes of the main table that lead to a peer and that were
added by hand. It ignores routes from the kernel, DHCP, router advertisements and routing daemons.

**Prove:** ip route show proto boot && grep -r NETWORK /etc/NetworkManager /etc/netplan
/etc/systemd/network

**Fix:** Set the routes in fullmesh_links (docs/links.md), then run ansible-playbook site.yml -i
INVENTORY --tags network
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.next_boot.kept_state import get_next_boot, make_boot_warning
from fullmesh.result.findings import WARNING, Finding, join_names


def rule_boot_routes(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report routes to peers that the next boot does not set."""
    for name in evidence.nodes:
        lost = [one for one in get_next_boot(evidence, name).get("routes", []) if not one["kept"]]
        if lost:
            ways = [f"{one['to']} via {one['via'] or one['card']}" for one in lost]
            yield make_boot_warning(
                "DG-266",
                f"{name} will not have its route to {join_names([one['to'] for one in lost])} after the next boot",
                name,
                seen=f"{'; '.join(ways)}, in no file that configures an interface at boot",
                expected="in the files of the interface's network service",
                fix=f"on {name}: write it there (fullmesh_links: routes, docs/links.md)",
            )


CAUSE = Cause(
    "DG-266",
    __doc__,
    find=rule_boot_routes,
    needs=("next_boot",),
    severity=WARNING,
    weight=60,
    cases=(CauseCase("boot-route", "ip route add of a network with the peer in it"),),
)
