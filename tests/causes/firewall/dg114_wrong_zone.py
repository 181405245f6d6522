"""Cases of DG-114."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.faults import LINK_IN, TUNED, VICTIM, WHOLE, Fault, change_policy, make_step

RECORDED = {"wrong-zone": UB}
FAULTS = (
    Fault(
        "wrong-zone",
        TUNED,
        make_step(
            VICTIM,
            change_policy("--remove-ingress-zone=ANY")
            + "\n"
            + change_policy("--add-ingress-zone=internal"),
            change_policy("--remove-ingress-zone=internal")
            + "\n"
            + change_policy("--add-ingress-zone=ANY"),
        ),
        expect={**LINK_IN, "port": WHOLE},
    ),
)
