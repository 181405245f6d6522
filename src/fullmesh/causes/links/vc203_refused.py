"""A link refuses connections although a listener is there

The connection was reset, although Fullmesh's listener was open on that port. A firewall sends the
resets.

**Prove:** nft list ruleset | grep 'tcp reset'

**Fix:** ansible-playbook site.yml -i INVENTORY --tags firewall.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase

CAUSE = Cause(
    "VC-203",
    __doc__,
    weight=280,
    cases=(CauseCase("range-reset", "the only input chain: reject with tcp reset", fields=LINK),),
)
