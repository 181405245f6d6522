"""Check the links of one node, and list the addresses for the manifest.

The plan has checked every value by itself. These checks need the interfaces that were found on the node.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypedDict

from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_decimal
from fullmesh.model.types import PlanLink

LONGEST_WAIT = 600
# A change takes 2 to 5 s, and a new ssh connection the same again on a loaded node.
SHORTEST_ROLLBACK = 10
LONGEST_ROLLBACK = 3600

CODES: dict[str, str] = {
    "IP-101": "The interface of a link is not on the node",
    "IP-102": "No service on the node can configure the interface",
    "IP-103": "Something that Fullmesh does not support owns the interface",
    "IP-105": "Another host on the link uses the address",
    "IP-106": "The network service's own tool rejects the links. Nothing was written",
    "IP-107": "The kernel does not show an address, MTU or route after the deadline",
    "IP-108": "The network service rejected the configuration, so the node reverted the change",
    "IP-109": "No interface was found for a link",
    "IP-110": "Two links mean the same interface",
    "IP-111": "Two links have a gateway of the same family",
    "IP-112": "static_ip_wait_seconds is out of range",
    "IP-113": "The node did not come back on a new connection, so it reverted the change",
    "IP-114": "The node reverted the change before it could be confirmed",
    "IP-115": "With the new addresses, the node cannot reach the master, or any other node that is up",
    "IP-116": "static_ip_rollback_seconds is out of range",
    "IP-117": "The node does not answer at its old address either, after its deadline",
    "IP-118": "Another file configures the interface, and settings in it would be lost, or Fullmesh cannot edit it",
    "IP-119": "An interface has a default route that no link names and that would be lost",
    "IP-120": "An interface with ssh or the default route is no longer in a link, so a boot would lose its addresses",
    "IP-121": "Settings of another program on an interface could not be restored after the change",
    "IP-122": "A node reports a new address that is not one of its planned addresses",
    "IP-123": "Rails in one network need routing tables, and the network service of the node has none",
}


def find_static_ip_faults(
    links: Sequence[PlanLink], wait_seconds: Any, rollback_seconds: Any = 60
) -> list[Fault]:
    """Return the faults in the links of one node."""
    found = [_explain_no_link_interface(link) for link in links if not link["interface"]]
    names = Counter(link["interface"] for link in links if link["interface"])
    for name in [name for name, count in names.items() if count > 1]:
        found.append(
            Fault(
                "IP-110",
                f"Two links of this node use interface {name}",
                "Merge them into one link that lists all addresses",
            )
        )
    found += _find_gateway_faults(links)
    if parse_decimal(str(wait_seconds), LONGEST_WAIT, 1) is None:
        found.append(
            Fault(
                "IP-112",
                f"static_ip_wait_seconds is {wait_seconds}",
                f"Choose 1 to {LONGEST_WAIT} seconds",
            )
        )
    if parse_decimal(str(rollback_seconds), LONGEST_ROLLBACK, SHORTEST_ROLLBACK) is None:
        found.append(
            Fault(
                "IP-116",
                f"static_ip_rollback_seconds is {rollback_seconds}",
                f"Choose {SHORTEST_ROLLBACK} to {LONGEST_ROLLBACK} seconds. The rollback cannot be switched off",
            )
        )
    return found


def _explain_no_link_interface(link: PlanLink) -> Fault:
    wanted = link.get("mac") or link.get("pattern") or ", ".join(link["addresses"])
    return Fault(
        "IP-109",
        f"This node has no interface for {wanted}",
        "Set fullmesh_interface to its name or MAC, see `ip -br link` on the node",
    )


def _find_gateway_faults(links: Sequence[PlanLink]) -> list[Fault]:
    """Find two default routes of one family. The kernel would use only one, and Fullmesh cannot know which is right."""
    gateways = [(str(link["gateway"]), link["interface"]) for link in links if link.get("gateway")]
    families = Counter(ipaddress.ip_address(address).version for address, _ in gateways)
    return [
        Fault(
            "IP-111",
            "two links have an IPv{} gateway: {}".format(
                family, ", ".join(f"{address} on {name}" for address, name in gateways)
            ),
            "Keep one, and use routes for the other network",
        )
        for family, count in families.items()
        if count > 1
    ]


class WatchedAddress(TypedDict):
    """An address with its prefix, on an interface."""

    interface: str
    address: str


def list_watched_addresses(links: Sequence[PlanLink]) -> list[WatchedAddress]:
    """List each address with its interface, for the manifest."""
    return [
        {"interface": link["interface"], "address": address}
        for link in links
        for address in link["addresses"]
    ]
