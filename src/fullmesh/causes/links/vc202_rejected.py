"""A link rejects connections

A firewall answers with an ICMP error, as firewalld does by default. connect() reports it as 'No
route to host', although the route is right.

**Prove:** ip neigh show PEER (REACHABLE means that a firewall rejects)

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
            "the only input chain: reject with icmpx admin-prohibited, or remove the range from firewalld's policy",
            fields=LINK,
        ),
    ),
)
