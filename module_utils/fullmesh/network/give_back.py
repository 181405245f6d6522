# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Compute the goal of a network undo months later: remove Fullmesh's changes, and keep later additions of others.

Runs on nodes: standard library only. No side effects: the old state, the present state and Fullmesh's files give the
goal. `transaction.engine.read_kernel_view` returns a view of the kernel. A route in it is ``[family, interface,
line]``.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from ..files import split_words
from . import owner, static_ip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..tools.ip import IpLink
    from ..transaction.engine import KernelGoal, KernelView, Route, ViewLink
    from .types import KernelLink, OwnerState


# ip-route(8): words that may come before the network
KINDS = ("unicast", "local", "broadcast", "blackhole", "unreachable", "prohibit", "throw")


def find_own_addresses(texts: Iterable[str], seen: Mapping[str, IpLink]) -> dict[str, list[str]]:
    """Return each interface's addresses from Fullmesh's files, with prefixes."""
    files = list(texts)
    return {
        name: [
            one["address"]
            for one in state["addresses"]
            if any(
                static_ip.is_address_in_file(text, one["address"].split("/", 1)[0])
                for text in files
            )
        ]
        for name, state in seen.items()
    }


def find_foreign_interfaces(
    touched: Iterable[str], seen: Mapping[str, IpLink], ours: dict[str, list[str]]
) -> list[str]:
    """Return the *touched* interfaces whose addresses are all foreign, so that others configure them now.

    Examples are a physical interface that only carries a VLAN of Fullmesh, or one that got another address since.
    Bonds, VLANs and members of bonds are not included.
    """
    every = list(touched)
    found = []
    for name in every:
        state = seen.get(name)
        if state is None:
            continue
        have = any(one["scope"] == "global" for one in state["addresses"])
        plain = state["kind"] not in ("bond", "vlan") and state["master"] not in every
        if have and plain and not ours.get(name):
            found.append(name)
    return found


def build_undo_goal(
    before: KernelView,
    now: KernelView,
    seen: Mapping[str, IpLink],
    texts: Iterable[str],
    touched: list[str],
) -> KernelGoal:
    """Return the kernel state that the undo aims for: the old state, and later additions of others.

    Args:
        before: the view of the interfaces that Fullmesh changed, before each one's first change.
        now: the present view of the same interfaces.
        seen: every interface, as `ip.parse_links` gives it.
        texts: Fullmesh's present files.
        touched: the interfaces that Fullmesh changed or created.

    Returns:
        A view for `transaction.engine.build_kernel_commands`. ``ours``: all that may be removed. ``alone``: interfaces
            that stay unchanged.
    """
    files = list(texts)
    ours = find_own_addresses(files, seen)
    alone = find_foreign_interfaces(touched, seen, ours)
    goal: KernelGoal = {
        "links": {},
        "routes": [],
        "connected": [],
        "alone": alone,
        "ours": {"addresses": {}, "routes": []},
    }
    for name, have in sorted(now["links"].items()):
        then = before["links"].get(name)
        if name in alone:
            then, own = have, []
            old = now
        elif then is None:
            continue
        else:
            own = [one for one in ours.get(name, []) if one not in then["addresses"]]
            old = before
        goal["links"][name] = merge_interface(then, have, own, files)
        goal["ours"]["addresses"][name] = own
        for kept, is_now, was in (
            (goal["routes"], now["routes"], old["routes"]),
            # an older version has saved none
            (goal["connected"], now.get("connected", []), old.get("connected", [])),
        ):
            there, then_there = (
                list_interface_routes(is_now, name),
                list_interface_routes(was, name),
            )
            mine = [one for one in there if is_own_route(one[2], own, files)] if own else []
            later = [one for one in there if one not in mine]
            kept.extend(merge_routes(then_there, later, goal["links"][name]))
            goal["ours"]["routes"] += [one for one in mine if one not in then_there]
    return goal


def merge_interface(then: ViewLink, have: ViewLink, own: list[str], files: list[str]) -> ViewLink:
    """Return the old state of one interface, with addresses that others added since."""
    later = [one for one in have["addresses"] if one not in own and one not in then["addresses"]]
    manners = {one: words for one, words in have.get("manner", {}).items() if one in later}
    return {
        # an MTU other than Fullmesh's was set by others
        "mtu": then["mtu"] if is_mtu_in_files(files, have["mtu"]) else have["mtu"],
        "up": then["up"] or bool(later),
        "addresses": sorted([*then["addresses"], *later]),
        "leases": sorted({*then.get("leases", []), *(set(have.get("leases", [])) & {*later})}),
        "manner": {**then.get("manner", {}), **manners},
    }


def is_mtu_in_files(files: Iterable[str], mtu: int) -> bool:
    """Return whether a file of Fullmesh sets this MTU: ``mtu: 9000``, ``MTUBytes=9000``, ``mtu 9000``."""
    pattern = rf"^\s*mtu\w*[\s:=\"']+{mtu}\b"
    return any(re.search(pattern, text, re.IGNORECASE | re.MULTILINE) for text in files)


# --- routes -------------------------------------------------------------------------------------


def list_interface_routes(routes: list[Route], name: str) -> list[Route]:
    """Return the routes of one interface."""
    return [one for one in routes if one[1] == name]


def list_bare_addresses(addresses: Iterable[str]) -> list[str]:
    """Return addresses without their prefixes."""
    return [one.split("/", 1)[0] for one in addresses]


def get_route_value(line: str, key: str) -> str:
    """Return the word after *key* in a route, or ""."""
    words = split_words(line)
    return words[words.index(key) + 1] if key in words[:-1] else ""


def parse_route_network(line: str) -> str:
    """Return the destination of a route."""
    words = [one for one in split_words(line) if one not in KINDS]
    return words[0] if words else ""


def build_route_key(route: Route) -> tuple[str, str, str]:
    """Return the key that must be unique: the kernel keeps one route for a network and a metric."""
    return (route[0], parse_route_network(route[2]), get_route_value(route[2], "metric"))


def is_own_route(line: str, own: list[str], files: Iterable[str]) -> bool:
    """Return whether one of Fullmesh's files has the route, or it starts at one of its addresses."""
    if get_route_value(line, "src") in list_bare_addresses(own):
        return True
    via, to = get_route_value(line, "via"), parse_route_network(line)
    wanted = [via] if to == "default" else [via, to]
    return bool(via) and any(all(has_address_word(text, one) for one in wanted) for text in files)


def has_address_word(text: str, value: str) -> bool:
    """Return whether a text has an address or network as a separate word. A prefix may follow."""
    return bool(re.search(rf"(?<![\w.:]){re.escape(value)}(?![\w.:])", text, re.ASCII))


def merge_routes(then: list[Route], later: list[Route], link: ViewLink) -> list[Route]:
    """Return the old routes, and later ones whose next hop is reachable without Fullmesh's addresses."""
    stay = [
        one
        for one in later
        if one not in then and is_route_reachable(one[2], link["addresses"], later)
    ]
    taken = [build_route_key(one) for one in stay]
    return [one for one in then if build_route_key(one) not in taken] + stay


def is_route_reachable(line: str, addresses: list[str], routes: list[Route]) -> bool:
    """Return whether the kernel would accept a route on an interface with these addresses and routes."""
    # a next hop of several, on a line of its own, is no route
    if line.startswith("nexthop"):
        return False
    via = get_route_value(line, "via")
    if not via or via == "inet6" or "onlink" in split_words(line):
        return True
    hop = ipaddress.ip_address(via)
    if hop.is_link_local:
        return True
    near = [one[2] for one in routes if not get_route_value(one[2], "via")]
    networks = [
        *addresses,
        *(parse_route_network(one) for one in near if parse_route_network(one) != "default"),
    ]
    return any(hop in ipaddress.ip_network(one, strict=False) for one in networks)


# --- the owners' words ----------------------------------------------------------------------------


def build_owner_states(
    before: dict[str, OwnerState], now: dict[str, OwnerState], goal: KernelGoal
) -> dict[str, OwnerState]:
    """Return each owner's snapshot for the rollback.

    It has the old state, and for interfaces that stay unchanged the present one.

    Args:
        before: {backend: snapshot} before the first change.
        now: the present snapshots.
        goal: as `build_undo_goal` returns it.
    """
    stay = {
        (one[0], parse_route_network(one[2]), get_route_value(one[2], "via"))
        for one in goal["routes"]
    }
    result: dict[str, OwnerState] = {}
    for one, then in before.items():
        rest = [name for name in then.get("links", {}) if name not in goal["alone"]]
        mixed = owner.widen_snapshot(owner.narrow_snapshot(then, rest), now[one], goal["alone"])
        links = {
            name: fit_interface(link, goal["links"].get(name))
            for name, link in mixed.get("links", {}).items()
        }
        routes = [r for r in mixed.get("routes", []) if (r["family"], r["to"], r["via"]) in stay]
        result[one] = {**mixed, "links": links, "routes": routes}
    return result


def fit_interface(link: KernelLink, goal: ViewLink | None) -> KernelLink:
    """Return an interface of a snapshot with the lasting addresses of the goal."""
    if goal is None:
        return link
    lasting = [one for one in goal["addresses"] if one not in goal["leases"]]
    return {**link, "mtu": goal["mtu"], "up": goal["up"], "addresses": lasting}
