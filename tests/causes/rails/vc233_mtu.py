"""Cases of VC-233."""

from __future__ import annotations

from causes.rails import UB, Change, change_nic

CHANGES = {"rail, MTU 1500": Change(UB, change_nic(UB, 0, mtu=1500))}
