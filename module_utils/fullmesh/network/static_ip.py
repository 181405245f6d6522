"""Parse the kernel's state of a link and compare it with the plan. owner.py and backends/ write the configuration.

Runs on nodes: standard library only. No side effects: text in, text or data out.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from ..tools import ip
from .backends import common, kernel_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..tools.ip import IpLink
    from .types import DetailedRoute, LinkSettings, SeenRoute


ip_version_of = common.ip_version_of
of_family = common.of_family
wanted_routes = common.wanted_routes


# --- the kernel's state ----------------------------------------------------------------------


def parse_routes(text: str) -> list[SeenRoute]:
    """Return the routes over a next hop. "default" becomes its network."""
    routes: list[SeenRoute] = []
    for one in ip.parse_routes(text):
        via, to = one["via"], one["to"]
        if to == "default" and via:
            to = common.DEFAULTS[ip_version_of(via)]
        if via and to:
            routes.append({"to": normalize_network(to), "via": via, "dev": one["dev"]})
    return routes


def parse_detailed_routes(text: str, family: int) -> list[DetailedRoute]:
    """Read all routes of a family, a next hop each."""
    return [
        {
            "family": family,
            "to": common.DEFAULTS[family]
            if one["to"] == "default"
            else normalize_network(one["to"]),
            "via": hop["via"],
            "dev": hop["dev"],
            "protocol": one["protocol"],
        }
        for one in ip.parse_routes(text)
        for hop in one["hops"]
        if one["to"]
    ]


def normalize_network(text: str) -> str:
    """Normalize a network: ``ip`` omits the prefix of a host route."""
    return str(ipaddress.ip_network(text, strict=False))


def find_link_faults(
    link: LinkSettings, seen: Mapping[str, IpLink], routes: list[SeenRoute]
) -> list[str]:
    """Describe the kernel's differences from a link. [] if there are none."""
    name = link["interface"]
    if name not in seen and (common.get_vlan(link) or common.get_bond(link)):
        return [f"there is no {name} yet"]
    state = seen.get(name)
    have = {one["address"]: one for one in (state["addresses"] if state else [])}
    mtu = state["mtu"] if state else 0
    faults = [*find_vlan_faults(link, state), *find_bond_faults(link, seen)]
    for address in link["addresses"]:
        entry = have.get(address)
        if entry is None:
            faults.append(
                "{} is not on {} (it has {})".format(address, name, ", ".join(have) or "no address")
            )
        elif entry["duplicate"]:
            faults.append(f"{address} on {name} is used by another host, according to the kernel")
        elif entry["tentative"]:
            faults.append(f"{address} on {name} is still being checked for duplicates")
        elif entry["dynamic"]:
            faults.append(f"{address} on {name} is a lease that ends")
    if link.get("mtu") and mtu != link["mtu"]:
        faults.append("the MTU of {} is {}, not {}".format(name, mtu, link["mtu"]))
    for route in wanted_routes(link):
        wanted = {"to": normalize_network(route["to"]), "via": route["via"], "dev": name}
        if wanted not in routes:
            faults.append("there is no route to {to} via {via} on {dev}".format(**wanted))
    return faults


def find_table_faults(link: LinkSettings, rules: str, routes: str) -> list[str]:
    """Describe the differences of a rail's routing table and its rule.

    Args:
        link: of the plan.
        rules: the output of `ip.SHOW_RULES`.
        routes: the output of `ip.SHOW_TABLES`.
    """
    rail = common.get_rail_table(link)
    if rail is None:
        return []
    faults = []
    wanted = {"priority": rail.number, "src": rail.source, "table": str(rail.number)}
    if not any(wanted.items() <= one.items() for one in ip.parse_objects(rules)):
        faults.append(f"there is no rule from {rail.source} to table {rail.number}")
    way = {"dst": rail.network, "dev": link["interface"], "table": str(rail.number)}
    if not any(way.items() <= one.items() for one in ip.parse_objects(routes)):
        faults.append("there is no route to {dst} on {dev} in table {table}".format(**way))
    return faults


def find_vlan_faults(link: LinkSettings, state: IpLink | None) -> list[str]:
    """Return a fault if the VLAN has another tag or parent."""
    vlan = common.get_vlan(link)
    if not vlan:
        return []
    if state is None or state["kind"] != "vlan":
        return ["{} is not a VLAN".format(link["interface"])]
    have, wanted = str(state["data"].get("id", "")), str(vlan["id"])
    if (have, state["parent"]) == (wanted, vlan["parent"]):
        return []
    name, parent = link["interface"], state["parent"]
    return [f"{name} is VLAN {have} of {parent}, not {wanted} of {vlan['parent']}"]


def find_bond_faults(link: LinkSettings, seen: Mapping[str, IpLink]) -> list[str]:
    """Describe a bond's differences: its options, and its members (with and without a carrier)."""
    bond, name = common.get_bond(link), link["interface"]
    if not bond:
        return []
    state = seen[name]
    if state.get("kind") != "bond":
        return [f"{name} is no bond"]
    faults = [
        "the bond {} has not {}".format(
            name, " ".join("{} {}".format(*pair) for pair in sorted(wrong))
        )
        for wrong in [kernel_state.find_bond_differences(link, state["data"])]
        if wrong
    ]
    have = {one for one, other in seen.items() if other.get("master") == name}
    for one in bond["members"]:
        if one not in have:
            faults.append(f"{one} is not a member of {name}")
    for one in sorted(have - set(bond["members"])):
        faults.append(f"{one} is a member of {name} that is not in the plan")
    return faults


# --- state that the new files would lose --------------------------------------------------------

# The driver's default, which is not known for certain. Another MTU comes from a file or a lease.
USUAL_MTU = 1500


def find_surplus_state(
    link: LinkSettings, seen: Mapping[str, IpLink], routes: list[DetailedRoute]
) -> list[str]:
    """Describe the kernel's state of a link that its files do not give.

    It is lost at the next boot at the latest.

    Args:
        link: of the plan.
        seen: as `ip.parse_links` gives it.
        routes: as `parse_detailed_routes` gives them, of both families.
    """
    name = link["interface"]
    extra = []
    for one in common.list_affected_interfaces([link]):
        own = link["addresses"] if one == name else []
        there = seen[one]["addresses"] if one in seen else []
        have = [a["address"] for a in there if a["scope"] == "global"]
        extra += [f"{value} on {one}" for value in have if value not in own]
    wanted = [(normalize_network(route["to"]), route["via"], name) for route in wanted_routes(link)]
    for route in routes:
        key = (route["to"], route["via"], route["dev"])
        if (
            route["protocol"] != "kernel"
            and key[2] in common.list_affected_interfaces([link])
            and key not in wanted
        ):
            extra.append(
                "the route to {} via {} on {}".format(key[0], key[1] or "the link", key[2])
            )
    mtu = seen[name]["mtu"] if name in seen else USUAL_MTU
    if not link.get("mtu") and not common.get_vlan(link) and mtu != USUAL_MTU:
        extra.append(f"the MTU {mtu} of {name}")
    return extra


def find_dropped_addresses(
    old: Iterable[str], links: list[LinkSettings], seen: Mapping[str, IpLink]
) -> dict[str, list[str]]:
    """Return addresses in *old* files of Fullmesh that no link has any more, on interfaces that no link uses.

    They disappear with the next boot, or earlier if the owner reads its files.
    """
    ours = common.list_affected_interfaces(links)
    wanted = {value.split("/")[0] for link in links for value in link["addresses"]}
    found = {}
    for name, state in sorted(seen.items()):
        have = [one["address"].split("/")[0] for one in state["addresses"]]
        lost = [
            one
            for one in have
            if one not in wanted and any(is_address_in_file(text, one) for text in old)
        ]
        if lost and name not in ours:
            found[name] = lost
    return found


def is_address_in_file(text: str, address: str) -> bool:
    """Return whether a network file gives an interface an address: with its prefix, or as ifcfg's IPADDR.

    Name servers and next hops have no prefix.
    """
    one = re.escape(address)
    found = re.search(rf"(?<![\w.:]){one}/\d", text, re.ASCII)
    return bool(
        found or re.search(rf"^IPADDR\d*=[\"']?{one}[\"']?\s*$", text, re.MULTILINE | re.ASCII)
    )


def list_default_families(links: Iterable[LinkSettings]) -> set[int]:
    """Return the families with a default route on a link."""
    return {family for link in links for family in (4, 6) if common.get_gateway(link, family)}


def find_lost_default_routes(
    links: list[LinkSettings],
    changing: list[LinkSettings],
    seen: Mapping[str, IpLink],
    routes: list[DetailedRoute],
) -> list[DetailedRoute]:
    """Return the default routes of the changing interfaces that *links* do not keep.

    These do not count: a family that keeps another default route (on a link, or on an unrelated interface with its
    lease), and one from a router advertisement, which Fullmesh's files disable on purpose. Also not counted: one whose
    gateway is no longer in the network, and one of an interface that moves between static addresses. Those are tested,
    and reverted if they are wrong.
    """
    given = list_default_families(links)
    ours, moving = common.list_affected_interfaces(links), common.list_affected_interfaces(changing)
    wide = [route for route in routes if route["to"] in common.DEFAULTS.values()]
    given |= {route["family"] for route in wide if route["dev"] not in ours}
    found = [route for route in wide if route["dev"] in moving and route["family"] not in given]
    return [one for one in found if one["protocol"] != "ra" and can_keep_route(one, links, seen)]


def can_keep_route(
    route: DetailedRoute, links: list[LinkSettings], seen: Mapping[str, IpLink]
) -> bool:
    """Return whether a default route works with the new addresses, and its interface keeps one or had a lease."""
    wanted = [ipaddress.ip_interface(value) for link in links for value in link["addresses"]]
    if not route["via"] or not any(ipaddress.ip_address(route["via"]) in w.network for w in wanted):
        return False
    stay = {str(one.ip) for one in wanted}
    have = seen[route["dev"]]["addresses"] if route["dev"] in seen else []
    return any(
        one["dynamic"] or one["address"].split("/")[0] in stay
        for one in have
        if ip_version_of(one["address"]) == route["family"] and one["scope"] == "global"
    )
