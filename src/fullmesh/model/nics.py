"""Read a node's links: its interfaces and their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fullmesh import node_values
from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_decimal
from fullmesh.model import addresses, stacks
from fullmesh.model.types import PlanLink

FIELDS = frozenset(
    {"interface", "addresses", "gateway", "dns", "search", "mtu", "routes", "vlan", "bond"}
)
# RFC 791: every host takes 576 octets. RFC 8200 5: IPv6 needs 1280. Ethernet's jumbo frames end at 9216,
# InfiniBand's IPoIB connected mode at 65520, USB4's network at 65522 (drivers/net/thunderbolt/main.c).
LOWEST_MTU, HIGHEST_MTU = 1280, 65522


@dataclass(frozen=True)
class NodeLink:
    """One interface of a node in the cluster.

    Attributes:
        interface: its name, "" if only the node knows it.
        mac: lower case, "" if it was not chosen by MAC.
        addresses: with prefix. Peers use the first one.
        mtu: bytes. 0 leaves it unchanged.
        routes: ``{"to": network, "via": address}``.
        vlan: the VLAN's settings, if it is one.
        bond: the bond's settings, if it is one.
        rail: the rail of the link (``model/rails.py``), or "".
        table: the routing table of that rail, 0 for none.
        pattern: the shell pattern that finds the NIC of a rail, or "".
    """

    interface: str
    mac: str
    addresses: tuple[addresses.Interface, ...]
    gateway: str = ""
    dns: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    mtu: int = 0
    routes: tuple[tuple[str, str], ...] = field(default=())
    vlan: stacks.VlanSettings | None = None
    bond: stacks.BondSettings | None = None
    rail: str = ""
    table: int = 0
    pattern: str = ""

    def as_plan(self) -> PlanLink:
        """Return the link as plain data."""
        plain: PlanLink = {
            "interface": self.interface,
            "mac": self.mac,
            "addresses": [str(value) for value in self.addresses],
            "gateway": self.gateway,
            "dns": list(self.dns),
            "search": list(self.search),
            "mtu": self.mtu,
            "routes": [{"to": to, "via": via} for to, via in self.routes],
            "vlan": self.vlan.as_plan() if self.vlan else {},
            "bond": self.bond.as_plan() if self.bond else {},
        }
        if self.rail:
            plain |= {"rail": self.rail, "table": self.table, "pattern": self.pattern}
        return plain


def read_node_links(host: str, chosen: Mapping[str, Any], faults: list[Fault]) -> list[NodeLink]:
    """Read the links from a host's settings. Errors go to *faults*."""
    raw: list[Any] = []
    if chosen.get("fullmesh_address") is not None:
        raw.append(
            {
                "interface": chosen.get("fullmesh_interface") or "",
                "addresses": chosen["fullmesh_address"],
            }
        )
    more = chosen.get("fullmesh_links")
    if more is not None and not isinstance(more, list):
        faults.append(Fault("PL-117", f"{host}: fullmesh_links is {more!r}", "Use a list of links"))
    elif more:
        raw += more
    if not raw:
        faults.append(
            Fault(
                "PL-103",
                f"{host}: no cluster address",
                "Set fullmesh_address, for example 10.0.0.11/24",
            )
        )
    links = [_read_link(f"{host}: link {at}", entry, faults) for at, entry in enumerate(raw)]
    usable = name_stacked_links([link for link in links if link is not None])
    if len(usable) == len(raw):
        faults += stacks.find_stack_faults(host, usable)
    named = [link.interface or link.mac for link in usable if link.interface or link.mac]
    for name in sorted({name for name in named if named.count(name) > 1}):
        faults.append(
            Fault(
                "PL-117",
                f"{host}: two links use {name}",
                "Merge them into one link that lists all addresses",
            )
        )
    return move_addressed_first(usable) if len(usable) == len(raw) else []


def move_addressed_first(links: list[NodeLink]) -> list[NodeLink]:
    """Move the first link with an address to the front: it carries the cluster address. Return [] if there is none."""
    ordered = sorted(links, key=lambda link: not link.addresses)
    return ordered if ordered and ordered[0].addresses else []


def name_stacked_links(links: list[NodeLink]) -> list[NodeLink]:
    """Give bonds and VLANs the names that the user left out: bond0, bond1 ... and parent.id.

    A VLAN whose parent is chosen by MAC keeps "" until the node reports the interface's name.
    """
    used = {link.interface for link in links}
    free = (f"bond{n}" for n in range(len(links)) if f"bond{n}" not in used)
    result = []
    for link in links:
        name = link.interface
        if not name and link.bond:
            name = next(free)
        elif not name and link.vlan and not node_values.MAC.match(link.vlan.parent):
            name = stacks.derive_vlan_name(link.vlan.parent, link.vlan.number)
        result.append(replace(link, interface=name))
    return result


def _read_link(where: str, entry: Any, faults: list[Fault]) -> NodeLink | None:
    if not isinstance(entry, Mapping) or not entry.keys() <= FIELDS:
        seen = sorted(entry.keys() - FIELDS) if isinstance(entry, Mapping) else repr(entry)
        faults.append(
            Fault("PL-117", f"{where}: cannot read {seen}", f"Known: {', '.join(sorted(FIELDS))}")
        )
        return None
    before = len(faults)
    # a link may have no address if another link (a VLAN) uses it
    given = entry.get("addresses")
    parsed = _read_addresses(where, given, faults) if given else []
    interface, mac = _read_identity(where, str(entry.get("interface") or ""), faults)
    vlan = stacks.read_vlan(where, entry.get("vlan"), faults)
    bond = stacks.read_bond(where, entry.get("bond"), faults)
    if (entry.get("vlan") and entry.get("bond")) or ((vlan or bond) and mac):
        faults.append(
            Fault(
                "PL-117",
                f"{where}: it combines a MAC, a VLAN and a bond",
                "Write one link for each",
            )
        )
    mtu = read_mtu(where, entry.get("mtu", 0), faults)
    gateway = _read_gateway(where, entry.get("gateway") or "", parsed, faults)
    dns = tuple(_read_address_list(where, "dns", entry.get("dns", []), faults))
    routes = _read_routes(where, entry.get("routes", []), faults)
    search = tuple(_read_search_domains(where, entry.get("search", []), faults))
    if len(faults) > before:
        return None
    return NodeLink(
        interface, mac, tuple(parsed), gateway, dns, search, mtu, tuple(routes), vlan, bond
    )


def _read_addresses(where: str, value: Any, faults: list[Fault]) -> list[addresses.Interface]:
    result = []
    for entry in value if isinstance(value, list) else [value]:
        try:
            result.append(addresses.parse_prefixed_address(entry))
        except ValueError as error:
            faults.append(
                Fault(
                    "PL-104", f"{where}: {error}", "Write address and prefix, such as 10.0.0.11/24"
                )
            )
    return result


def _read_identity(where: str, text: str, faults: list[Fault]) -> tuple[str, str]:
    """Tell a MAC from an interface name."""
    if node_values.MAC.match(text):
        return "", text.lower()
    if text and not node_values.INTERFACE_NAME.match(text):
        faults.append(
            Fault(
                "PL-117",
                f"{where}: {text!r} is neither an interface name nor a MAC",
                "Check: `ip -br link` on the node",
            )
        )
    return text, ""


def read_mtu(where: str, value: Any, faults: list[Fault]) -> int:
    """Read an MTU. Return 0 if it is left out or malformed."""
    text = str(value or 0)
    if text == "0":
        return 0
    mtu = parse_decimal(text, HIGHEST_MTU, LOWEST_MTU)
    if mtu is None:
        faults.append(
            Fault(
                "PL-123",
                f"{where}: mtu {text!r} is not between {LOWEST_MTU} and {HIGHEST_MTU}",
                "Leave it out, or use 1500 or 9000",
            )
        )
        return 0
    return mtu


def _read_gateway(
    where: str, value: Any, own: list[addresses.Interface], faults: list[Fault]
) -> str:
    if not value:
        return ""
    try:
        gateway = addresses.parse_bare_address(value)
    except ValueError as error:
        faults.append(Fault("PL-123", f"{where}: gateway {error}", "Give the router's address"))
        return ""
    if not any(gateway in one.network and gateway != one.ip for one in own):
        faults.append(
            Fault(
                "PL-123",
                f"{where}: gateway {gateway} is in none of {', '.join(map(str, own)) or 'its networks'}",
                "Correct the gateway or the prefix: a gateway is a neighbour",
            )
        )
    return str(gateway)


def _read_address_list(where: str, what: str, values: Any, faults: list[Fault]) -> list[str]:
    result = []
    for value in values if isinstance(values, list) else [values]:
        try:
            result.append(str(addresses.parse_bare_address(value)))
        except ValueError as error:
            faults.append(Fault("PL-123", f"{where}: {what} {error}", "Use a list of addresses"))
    return result


def _read_search_domains(where: str, values: Any, faults: list[Fault]) -> list[str]:
    listed = values if isinstance(values, list) else [values]
    for value in listed:
        if not node_values.SEARCH_DOMAIN.match(str(value)):
            text = f"{where}: search {value!r} is not a domain"
            faults.append(Fault("PL-123", text, "Use a list of domains, such as [cluster.example]"))
    return [str(value) for value in listed]


def _read_routes(where: str, values: Any, faults: list[Fault]) -> list[tuple[str, str]]:

    result = []
    for value in values if isinstance(values, list) else [values]:
        try:
            network = addresses.parse_network(value["to"])
            result.append((str(network), str(addresses.parse_bare_address(value["via"]))))
        except (KeyError, TypeError, ValueError) as error:
            faults.append(
                Fault(
                    "PL-123",
                    f"{where}: route {value!r}: {error}",
                    "Write {to: 10.1.0.0/24, via: 10.0.0.1}",
                )
            )
    return result
