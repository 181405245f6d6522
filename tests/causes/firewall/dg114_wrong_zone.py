"""Cases of DG-114."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.faults import LINK_IN, TUNED, VICTIM, WHOLE, Fault, at, both

RECORDED = {"wrong-zone": UB}
FAULTS = (
    Fault(
        "wrong-zone",
        TUNED,
        at(
            VICTIM,
            both("--remove-ingress-zone=ANY") + "\n" + both("--add-ingress-zone=internal"),
            both("--remove-ingress-zone=internal") + "\n" + both("--add-ingress-zone=ANY"),
        ),
        expect={**LINK_IN, "port": WHOLE},
    ),
)
