"""Cases of DG-281."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change
from causes.tunnels import add_tunnel, change_tunnel

CHANGES = {
    "tunnel-gone": Change(
        UB, change_tunnel(lambda ends: ends[UB].update(up=False, public_key="", peers=[]))
    ),
    "tunnel-down": Change(UB, change_tunnel(lambda ends: ends[UB].update(up=False))),
}
QUIET = {"a healthy tunnel": add_tunnel}
