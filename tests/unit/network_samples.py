"""Links of the plan, as the tests of static_ip and of its backends take them."""

from __future__ import annotations

from typing import Any

Link = dict[str, Any]


def link(**more: Any) -> Link:
    """A card with one address and nothing else, or with *more*."""
    plain: Link = {
        "interface": "eth1",
        "mac": "",
        "addresses": ["10.0.0.11/24"],
        "gateway": "",
        "dns": [],
        "search": [],
        "mtu": 0,
        "routes": [],
        "vlan": {},
        "bond": {},
    }
    return plain | more
