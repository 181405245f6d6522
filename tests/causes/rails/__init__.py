"""Cases of the plan's rails: tests of two rails, put into a recorded, healthy diagnosis."""

from __future__ import annotations

from typing import Any

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Break, Change, combine, get_node, get_survey

HOSTS = {EL: 11, UB: 12}
MTU = 9000


def make_address(rail: int, name: str) -> str:
    """The address of a node on a rail."""
    return f"10.91.{rail}.{HOSTS[name]}"


def make_mac(rail: int, name: str) -> str:
    """The hardware address of a node's interface on a rail."""
    return f"02:00:00:00:0{rail}:{HOSTS[name]:02x}"


def make_link(rail: int, source: str, **changed: Any) -> dict[str, Any]:
    """A connection that works, except for what is changed."""
    peer = UB if source == EL else EL
    return {
        "rail": f"rail{rail}",
        "node": peer,
        "own": make_address(rail, source),
        "address": make_address(rail, peer),
        "verdict": "open",
        "remark": "",
        "errno": "",
        "rtt_ms": 0.1,
        "dev": f"eth{rail + 2}",
        "via": "",
        "error": "",
        "refused": "",
        "mac": make_mac(rail, peer),
        "by_hand": False,
        **changed,
    }


def add_rails(world: World) -> None:
    """Both nodes have two rails that work, and no packet filter: the recorded one knows no rails."""
    world["plan"]["rails"] = [
        {
            "name": f"rail{rail}",
            "network": f"10.91.{rail}.0/24",
            "cable": False,
            "members": {name: make_address(rail, name) for name in HOSTS},
        }
        for rail in (0, 1)
    ]
    for name in HOSTS:
        get_survey(world, name)["nft"] = {"chains": [], "rules": [], "sets": [], "cut": 0}
        for rail in (0, 1):
            address = f"{make_address(rail, name)}/24"
            nic = {**get_survey(world, name)["interfaces"][-1], "name": f"eth{rail + 2}"}
            nic |= {"mac": make_mac(rail, name), "mtu": MTU, "addresses": [address]}
            nic |= {"carrier": True, "running": True, "state": "up", "speed": 0, "index": 90}
            get_survey(world, name)["interfaces"].append(nic)
            link = {
                "interface": f"eth{rail + 2}",
                "mac": "",
                "addresses": [address],
                "gateway": "",
                "dns": [],
                "search": [],
                "mtu": MTU,
                "routes": [],
                "vlan": {},
                "bond": {},
                "rail": f"rail{rail}",
            }
            world["plan"]["nodes"][name]["links"].append(link)
        get_node(world, name)["node"]["rails"] = [
            {
                "rail": f"rail{rail}",
                "address": make_address(rail, name),
                "port": 50100 + rail,
                "error": "",
            }
            for rail in (0, 1)
        ]
        links: Any = [make_link(rail, name) for rail in (0, 1)]
        get_node(world, name)["links"]["rails"] = {
            "links": links,
            "duplicates": [],
            "queues": [],
            "heard": [],
        }


def find_rail_nic(world: World, name: str, rail: int) -> Any:
    """A node's interface on a rail."""
    return next(
        one for one in get_survey(world, name)["interfaces"] if one["name"] == f"eth{rail + 2}"
    )


def change_nic(name: str, rail: int, /, **changed: Any) -> Break:
    """A node's interface on a rail is otherwise."""
    return combine(add_rails, lambda world: find_rail_nic(world, name, rail).update(changed))


def change_links(rail: int, *names: str, **changed: Any) -> Break:
    """The connections of these nodes over a rail are otherwise."""

    def change(world: World) -> None:
        add_rails(world)
        for name in names:
            for one in get_node(world, name)["links"]["rails"]["links"]:
                if one["rail"] == f"rail{rail}":
                    one.update(changed)

    return change


def add_to_probe(name: str, part: str, *entries: dict[str, Any]) -> Break:
    """A part of a node's tests of its rails has more entries."""

    def change(world: World) -> None:
        add_rails(world)
        probe: Any = get_node(world, name)["links"]["rails"]
        probe[part] += entries

    return change


def lose_links(rail: int, *names: str, **changed: Any) -> Break:
    """Packets of these nodes over a rail are lost."""
    return change_links(rail, *names, **{"verdict": "dropped", "mac": "", **changed})


__all__ = ["EL", "UB", "Change"]
