"""Cases of VC-241."""

from __future__ import annotations

from causes.rails import EL, Change, change_links

CHANGES = {"rail, large packets": Change(EL, change_links(0, EL, verdict="mtu_black_hole"))}
