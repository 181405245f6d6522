"""a node will not have its cluster address after the next boot (warning)

ip addr add lasts until the next boot or until the card's owner configures it anew. No file of NetworkManager (below
/run it is lost, too), netplan, systemd-networkd, ifupdown, ifcfg, cloud-init, and no script or unit has the address;
a card whose files ask for a lease is not judged.

**Prove:** grep -r ADDRESS /etc/NetworkManager/system-connections /etc/netplan /etc/systemd/network /etc/network

**Fix:** Give the card the address in the files of its owner: ansible-playbook site.yml -i INVENTORY --tags network
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-166",
    __doc__,
    severity=WARNING,
    weight=70,
    cases=(
        CauseCase("boot-address", "the address taken out of the owner's file, not off the card"),
    ),
)
