"""Cases of VC-240."""

from __future__ import annotations

from causes.rails import EL, UB, Change, lost

CHANGES = {
    "rail, silent": Change(EL, lost(1, EL, UB)),
    "rail, one direction": Change(EL, lost(1, EL)),
}
