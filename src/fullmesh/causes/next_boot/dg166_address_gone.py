"""A node will lose its cluster address at the next boot (warning)

An address from ip addr add is lost at the next boot, or when the interface's network service configures it again.
Fullmesh did not find the address in the files of NetworkManager (files below /run are lost, too), netplan,
systemd-networkd, ifupdown, ifcfg or cloud-init, nor in any script or unit. It does not check an interface whose files
request a DHCP lease.

**Prove:** grep -r ADDRESS /etc/NetworkManager/system-connections /etc/netplan /etc/systemd/network
/etc/network

**Fix:** Write the address into the files of the interface's network service: ansible-playbook
site.yml -i INVENTORY --tags network
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.next_boot.kept_state import get_next_boot, make_boot_warning
from fullmesh.result.findings import WARNING, Finding


def rule_boot_address(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report a cluster address that the next boot does not set."""
    for name in evidence.nodes:
        held = get_next_boot(evidence, name).get("address")
        if held and not held["leased"] and not held["kept"]:
            address = evidence.address(name)
            yield make_boot_warning(
                "DG-166",
                f"{name} will not have its cluster address {address} after the next boot",
                name,
                seen=f"{address} on {held['card']}, in no file that configures an interface at boot",
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
        CauseCase(
            "boot-address", "the address is removed from the owner's file, not from the interface"
        ),
    ),
)
