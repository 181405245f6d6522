"""Cases of DG-283."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change
from causes.tunnels import change_tunnel
from fullmesh.observed.survey import TunnelState


def set_age(age: int) -> Change:
    """Set the age of the last handshake at both ends."""

    def change(ends: dict[str, TunnelState]) -> None:
        for name in (EL, UB):
            ends[name]["peers"][0].update(age=age)

    return Change(UB, change_tunnel(change))


CHANGES = {"no-handshake": set_age(-1), "old-handshake": set_age(400)}
QUIET = {"a session of 170 s": set_age(170).apply}
