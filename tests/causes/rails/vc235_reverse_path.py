"""Cases of VC-235."""

from __future__ import annotations

from causes.rails import UB, Change, change_links

CHANGES = {
    "rail, rp_filter": Change(UB, change_links(1, UB, refused="EXDEV")),
    "rail, refused packets of a peer": Change(UB, change_links(1, UB, refused="EHOSTUNREACH")),
}
