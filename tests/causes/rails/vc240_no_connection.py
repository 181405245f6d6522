"""Cases of VC-240."""

from __future__ import annotations

from causes.rails import EL, UB, Change, lose_links

CHANGES = {
    "rail, silent": Change(EL, lose_links(1, EL, UB)),
    "rail, one direction": Change(EL, lose_links(1, EL)),
}
