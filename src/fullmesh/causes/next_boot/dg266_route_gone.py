"""a node will not have a route to its peers after the next boot (warning)

ip route add lasts until the next boot or until the card's owner configures it anew. Looked at are routes of the main
table that lead to a peer and that nobody learnt (no kernel, DHCP, router or daemon).

**Prove:** ip route show proto boot; grep -r NETWORK /etc/NetworkManager /etc/netplan /etc/systemd/network

**Fix:** Write it into the files of the card's owner: routes of fullmesh_links (docs/links.md), then ansible-playbook
site.yml -i INVENTORY --tags network
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-266",
    __doc__,
    severity=WARNING,
    weight=60,
    cases=(CauseCase("boot-route", "ip route add of a network with the peer in it"),),
)
