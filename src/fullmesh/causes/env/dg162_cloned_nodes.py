"""two nodes have one machine-id or one ssh host key

Machines that were copied after their first boot. systemd-networkd and NetworkManager make their DHCP identity from
the machine-id: a server may give both one address. With one host key ssh cannot tell the nodes apart, and whoever
reads the key on one can stand for the other. Where all nodes boot one image on purpose and have fixed addresses, it
does no harm to a job.

**Prove:** on every node: cat /etc/machine-id; ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub

**Fix:** Make both anew on all nodes but one; empty /etc/machine-id and take the keys out of the image.

**Source:** machine-id(5); systemd.network(5), DUIDType
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-162",
    __doc__,
    severity=WARNING,
    weight=180,
    cases=(
        CauseCase(
            "one-image", "the machine-id and the host key of the one node's files on the other, too"
        ),
    ),
)
