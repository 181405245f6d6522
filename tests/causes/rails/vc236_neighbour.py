"""Cases of VC-236."""

from __future__ import annotations

from causes.rails import EL, UB, Change, change_links, make_mac

CHANGES = {
    "rail, static neighbor": Change(EL, change_links(1, EL, mac="02:00:00:00:00:99", by_hand=True)),
    "rail, old neighbor": Change(EL, change_links(1, EL, mac="02:00:00:00:00:99")),
    "rail, ARP of the other rail": Change(UB, change_links(0, EL, mac=make_mac(1, UB))),
}
