"""Cases of VC-239."""

from __future__ import annotations

from causes.changes import add_rule, combine
from causes.rails import EL, UB, Change, lose_links

INTERFACE = {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth2"}}
CHANGES = {
    "rail, dropped by a rule": Change(
        UB, combine(lose_links(0, EL), add_rule("guard", INTERFACE, {"drop": None}))
    ),
}
