"""A node's own name resolves to loopback or to nothing

Without GLOO_SOCKET_IFNAME, Gloo announces the address of the node's own name. Ubuntu's installer
sets it to 127.0.1.1, which no peer can reach.

**Prove:** getent ahosts $(hostname)

**Fix:** ansible-playbook site.yml -i INVENTORY --tags network, or write the cluster address and the
name into /etc/hosts.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node, is_own_name

CAUSE = Cause(
    "VC-102",
    __doc__,
    weight=640,
    explains=(
        Explains(("DG-123",), has_same_node),
        Explains(("VC-101",), is_own_name),
    ),
    cases=(
        CauseCase("own-loopback", "127.0.1.1 HOSTNAME in /etc/hosts, nothing else for it"),
        CauseCase("own-unknown", "no line for HOSTNAME in /etc/hosts and no name server"),
    ),
)
