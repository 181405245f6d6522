"""Cases of DG-119."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, set_variable
from causes.faults import ALL, BARE, TUNED, Fault, set_job_variable, set_login_variable

CHANGES = {
    "ifname everywhere": Change(EL, set_variable("GLOO_SOCKET_IFNAME", "eth9", EL, UB)),
}
FAULTS = (
    Fault(
        "ifname-everywhere",
        TUNED,
        set_job_variable("GLOO_SOCKET_IFNAME=eth9", ALL),
        expect={"node": "{master}"},
    ),
    Fault(
        "ifname-everywhere",
        BARE,
        set_login_variable("NCCL_SOCKET_IFNAME=eth9", ALL),
        "nccl",
        expect={"node": "{master}"},
    ),
)
