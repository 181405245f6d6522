"""Cases of VC-234."""

from __future__ import annotations

from causes.rails import EL, UB, Change, change_links

CHANGES = {
    "rail, route over another rail": Change(UB, change_links(1, UB, dev="eth2")),
    "rail, route through a gateway": Change(EL, change_links(1, EL, via="10.91.1.1")),
    "rail, blackhole": Change(UB, change_links(0, UB, dev="", error="EINVAL")),
}
