"""Cases of DG-282."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change
from causes.tunnels import change_tunnel, make_key

CHANGES = {
    "peer-key": Change(EL, change_tunnel(lambda ends: ends[UB].update(public_key=make_key("n")))),
    "no-peer": Change(UB, change_tunnel(lambda ends: ends[UB].update(peers=[]))),
}
