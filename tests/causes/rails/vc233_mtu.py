"""Cases of VC-233."""

from __future__ import annotations

from causes.rails import UB, Change, change_card

CHANGES = {"rail, MTU 1500": Change(UB, change_card(UB, 0, mtu=1500))}
