"""a node does not answer Ansible

Nothing is known of this node; the others were diagnosed all the same, links to it were not tried.

**Prove:** ansible -i INVENTORY NODE -m ping -vvv

**Fix:** Fix power, network, sshd, key or host key, then run the diagnosis again.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "DG-201",
    __doc__,
    weight=310,
    cases=(CauseCase("unreachable", "stop the node's sshd or the node", fields=("node", "seen")),),
)
