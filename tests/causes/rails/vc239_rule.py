"""Cases of VC-239."""

from __future__ import annotations

from causes.changes import rule, together
from causes.rails import EL, UB, Change, lose_links

INTERFACE = {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth2"}}
CHANGES = {
    "rail, dropped by a rule": Change(
        UB, together(lose_links(0, EL), rule("guard", INTERFACE, {"drop": None}))
    ),
}
