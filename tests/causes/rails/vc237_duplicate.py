"""Cases of VC-237."""

from __future__ import annotations

from causes.rails import EL, UB, Change, add_to_probe, make_mac

CHANGES = {
    f"rail, duplicate {name}": Change(
        UB, add_to_probe(UB, "duplicates", {"rail": "rail0", "mac": mac})
    )
    for name, mac in (("of a stranger", "02:00:00:00:00:99"), ("of the peer", make_mac(0, EL)))
}
