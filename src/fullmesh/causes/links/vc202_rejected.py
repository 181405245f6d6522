"""a link rejects connections

An ICMP answer says prohibited, which connect() shows as 'No route to host' although the route is fine: firewalld's
own way to refuse.

**Prove:** ip neigh show PEER (REACHABLE means: it is a firewall)

**Fix:** ansible-playbook site.yml -i INVENTORY --tags firewall.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase

CAUSE = Cause(
    "VC-202",
    __doc__,
    weight=280,
    cases=(
        CauseCase(
            "range-reject",
            "the only input chain: reject with icmpx admin-prohibited; or take the range out of firewalld's policy",
            fields=LINK,
        ),
    ),
)
