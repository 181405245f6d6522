"""a node will not have its cluster address after the next boot (warning)

ip addr add lasts until the next boot or until the card's owner configures it anew. No file of NetworkManager (below
/run it is lost, too), netplan, systemd-networkd, ifupdown, ifcfg, cloud-init, and no script or unit has the address;
a card whose files ask for a lease is not judged.

**Prove:** grep -r ADDRESS /etc/NetworkManager/system-connections /etc/netplan /etc/systemd/network /etc/network

**Fix:** Give the card the address in the files of its owner: ansible-playbook site.yml -i INVENTORY --tags network
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.next_boot.kept_state import get_next_boot, make_boot_warning
from fullmesh.result.findings import WARNING, Finding


def rule_boot_address(evidence: ClusterEvidence) -> Iterator[Finding]:
    """The cluster address comes back."""
    for name in evidence.nodes:
        held = get_next_boot(evidence, name).get("address")
        if held and not held["leased"] and not held["kept"]:
            address = evidence.address(name)
            yield make_boot_warning(
                "DG-166",
                f"{name} will not have its cluster address {address} after the next boot",
                name,
                seen=f"{address} on {held['card']}, in no file that configures a card at boot",
                expected="in the files of NetworkManager, netplan, systemd-networkd, ifupdown or ifcfg",
                fix=f"on {name}: give {held['card']} the address there"
                + (
                    " (role static_ip does)"
                    if evidence.assumed
                    else f": {evidence.seen.apply('network')}"
                ),
            )


CAUSE = Cause(
    "DG-166",
    __doc__,
    find=rule_boot_address,
    needs=("next_boot",),
    severity=WARNING,
    weight=70,
    cases=(
        CauseCase("boot-address", "the address taken out of the owner's file, not off the card"),
    ),
)
