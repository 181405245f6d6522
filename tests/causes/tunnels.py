"""A healthy tunnel in the records of a diagnosis, and one change in it."""

from __future__ import annotations

import base64
from collections.abc import Callable

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import get_survey
from fullmesh.observed.survey import TunnelState


def make_key(letter: str) -> str:
    """Make a key from a letter, in WireGuard's form."""
    return base64.b64encode(letter.encode() * 32).decode()


KEYS = {EL: make_key("e"), UB: make_key("u")}
OTHER = {EL: UB, UB: EL}


def add_tunnel(world: World) -> None:
    """Give both nodes a working tunnel. Its addresses are those of the record."""
    plan = world["plan"]
    plan["wireguard"] = {"interface": "fullmesh-wg", "network": "10.78.5.0/24", "port": 29820}
    for name, other in OTHER.items():
        address = plan["nodes"][other]["address"]
        state: TunnelState = {
            "up": True,
            "public_key": KEYS[name],
            "peers": [
                {
                    "public_key": KEYS[other],
                    "networks": [f"{address}/32"],
                    "age": 40,
                }
            ],
        }
        get_survey(world, name)["tunnel"] = state


def change_tunnel(change: Callable[[dict[str, TunnelState]], object]) -> Callable[[World], None]:
    """Add the tunnel, and change the states of both ends."""

    def apply(world: World) -> None:
        add_tunnel(world)
        change({name: get_survey(world, name)["tunnel"] for name in OTHER})

    return apply
