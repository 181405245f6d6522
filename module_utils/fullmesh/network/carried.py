# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find state on the interfaces that no owner configures: addresses, routes and rules of other programs.

systemd-networkd and NetworkManager drop it when they configure an interface: keepalived's address, a routing daemon's
routes, a policy rule of a container network. No program restores it (networkd.conf(5), ManageForeignRoutes=), so the
change does. Standard library only.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from ..transaction.engine import DAEMONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..transaction.engine import KernelGoal, KernelView, ViewLink

# An owner's own: set by its files, or learnt by it.
OWNERS = frozenset(["static", "dhcp", "ra", "kernel", "redirect"])


def find_unowned_state(now: KernelView, known: set[str]) -> KernelGoal:
    """Return the state in *now* that no owner configures.

    Nothing is removed for it.

    Args:
        now: the kernel's state.
        known: addresses and networks that owners configure or will configure.
    """
    links: dict[str, ViewLink] = {}
    for name, link in now["links"].items():
        leased = {*link["leases"]}
        foreign = [
            one
            for one in link["addresses"]
            if one not in leased and one.partition("/")[0] not in known
        ]
        routed = any(one[1] == name and is_unowned_route(one[2], known) for one in now["routes"])
        if link["up"] and (foreign or routed):
            how = {one: link["manner"][one] for one in foreign if one in link["manner"]}
            links[name] = {"mtu": 0, "up": True, "addresses": foreign, "leases": [], "manner": how}
    over = [one for one in now["routes"] if (not one[1] or one[1] in links)]
    return {
        "links": links,
        "routes": [one for one in over if is_unowned_route(one[2], known)],
        "connected": [],
        "nexthops": [line for line in now.get("nexthops", []) if not has_owner_protocol(line)],
        "rules": [one for one in now.get("rules", []) if not has_owner_protocol(one[2])],
        "ours": {"addresses": {}, "routes": []},
    }


def has_owner_protocol(line: str) -> bool:
    """Return whether a route, rule or nexthop has an owner's protocol. Those made by hand have none."""
    words = line.split()
    return "proto" in words and words[words.index("proto") + 1] in OWNERS


def is_unowned_route(line: str, known: set[str]) -> bool:
    """Return whether a route belongs to a daemon or was made by hand.

    The default route of the main table never counts, because the change itself decides about it.
    """
    words = line.split()
    if DAEMONS & set(words):
        return True
    main_default = words[0] == "default" and "table" not in words
    return not (
        has_owner_protocol(line) or main_default or normalize_destination(words[0]) in known
    )


def normalize_destination(word: str) -> str:
    """Normalize a route's destination like `read_configured_networks`."""
    try:
        return str(ipaddress.ip_interface(word).network)
    except ValueError:
        return word


def has_unowned_state(goal: KernelGoal) -> bool:
    """Return whether there is any state to keep."""
    rules = [one for one in goal.get("rules", []) if one[1] not in {"0", "32766", "32767"}]
    return bool(goal["links"] or goal["routes"] or goal.get("nexthops") or rules)


def strip_prefixes(addresses: Iterable[str]) -> set[str]:
    """Return the addresses of a change without their prefixes."""
    return {one.partition("/")[0] for one in addresses}


def describe_lost_state(lost: list[str]) -> str:
    """Describe foreign state that the change lost, and the consequence."""
    return (
        "[IP-121] The kernel rejects state of other programs on the links after the change (`{}`). "
        "Check the program that set it. It may need the new addresses, or a restart.".format(
            "`, `".join(lost)
        )
    )
