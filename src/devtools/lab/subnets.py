"""Choose a lab's index, which decides its subnets and bridges."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from devtools.lab.errors import LabError

FIRST, LAST = 1, 254
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(index: int) -> list[Network]:
    """Return every network that the lab with this index may use."""
    return [
        ipaddress.ip_network(f"10.77.{index}.0/24"),
        ipaddress.ip_network(f"10.78.{index}.0/24"),
        ipaddress.ip_network(f"fd78:0:0:{index:x}::/64"),
    ]


def bridges(index: int) -> tuple[str, str]:
    """Return the host's bridges for management and cluster; names are limited to 15 bytes."""
    return f"fmlab{index}m", f"fmlab{index}c"


def overlaps(one: Network, other: Network) -> bool:
    """Return whether two networks share an address; different IP versions never do."""
    if isinstance(one, ipaddress.IPv4Network) and isinstance(other, ipaddress.IPv4Network):
        return one.overlaps(other)
    if isinstance(one, ipaddress.IPv6Network) and isinstance(other, ipaddress.IPv6Network):
        return one.overlaps(other)
    return False


def in_use(index: int, taken: Iterable[tuple[Network, str]]) -> tuple[Network, str] | None:
    """Return the first (network, interface) of *taken* that the index would collide with."""
    for network, interface in taken:
        if any(overlaps(network, ours) for ours in networks(index)):
            return network, interface
    return None


def read_routes(text: str) -> list[tuple[Network, str]]:
    """Read ``ip -j route``: the networks that this host can reach, with their interfaces.

    The default route is left out: it covers everything and collides with nothing.
    """
    found: list[tuple[Network, str]] = []
    for route in json.loads(text or "[]"):
        target = route.get("dst", "default")
        if target != "default" and "/0" not in target and route.get("type", "unicast") == "unicast":
            network = ipaddress.ip_network(target, strict=False)
            found.append((network, str(route.get("dev", "?"))))
    return found


def choose(
    name: str, allocations: Mapping[str, int], taken: Iterable[tuple[Network, str]], links: set[str]
) -> int:
    """Return the lab's index: the recorded one, or the lowest that is free.

    LB-108 if the recorded one collides with another network, or if none is free.
    """
    taken = list(taken)
    if name in allocations:
        index = allocations[name]
        own = bridges(index)
        foreign = in_use(index, [pair for pair in taken if pair[1] not in own])
        if foreign is None:
            return index
        raise LabError(
            "LB-108",
            f"lab {name!r} uses {networks(index)[0]}, and {foreign[1]} now has {foreign[0]}",
            f"Take it down (fullmesh lab down --name {name}) and up again: it gets other subnets.",
        )
    used = set(allocations.values())
    for index in range(FIRST, LAST + 1):
        free = index not in used and not links.intersection(bridges(index))
        if free and in_use(index, taken) is None:
            return index
    raise LabError(
        "LB-108",
        f"no free subnet in 10.77.{FIRST}-{LAST}.0/24 and 10.78.{FIRST}-{LAST}.0/24",
        "Take labs down that you no longer need (fullmesh lab status lists them).",
    )


def load(file: Path) -> dict[str, int]:
    """Read the recorded allocations; a missing file means none."""
    return dict(json.loads(file.read_text())) if file.exists() else {}


def save(file: Path, allocations: Mapping[str, int]) -> None:
    """Record the allocations in one step, so that a reader never sees half a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(dict(sorted(allocations.items())), indent=2) + "\n")
    fresh.replace(file)
