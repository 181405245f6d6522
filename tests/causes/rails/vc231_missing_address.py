"""Cases of VC-231."""

from __future__ import annotations

from causes.rails import UB, Change, change_nic

CHANGES = {
    f"rail, {name}": Change(UB, change_nic(UB, 0, **changed))
    for name, changed in {
        "another subnet": {"addresses": ["10.99.0.12/24"]},
        "no address": {"addresses": ["fe80::1/64"]},
        "another prefix": {"addresses": ["10.91.0.12/32"]},
        "another interface": {"name": "ens9"},
        "another interface without the address": {"name": "ens9", "addresses": []},
    }.items()
}
VERIFICATION = {
    "rail, no address in a verification": lambda seen: change_nic(UB, 0, addresses=[])(
        {"plan": seen.plan, "nodes": seen.nodes}
    ),
}
