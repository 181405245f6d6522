"""Cases of DG-181."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Break, Change, put, shut, together
from causes.faults import BARE, LINK_IN, OUTSIDE, WHOLE, Fault, at
from fullmesh.settings import ROOT


def hooked(where: str, card: str) -> Break:
    """Something is attached to a card, or to a control group."""
    return put("hooks", [{"at": where, "card": card, "what": "a program without a name (id 7)"}])


# From outside: a container may not load programs into the machine's kernel.
XDP = f"nsenter -t $V_PID -n -- python3 {ROOT}/tests/support/xdp_drop.py eth1"


CHANGES = {
    "xdp": Change(UB, together(shut(place="on_the_way"), hooked("xdp", "eth1"))),
    "tc": Change(UB, together(shut(), hooked("tc ingress", "eth1"))),
    "bpf of a control group": Change(UB, together(shut(), hooked("cgroup ingress", ""))),
}
FAULTS = (
    Fault(
        "xdp",
        BARE,
        at(OUTSIDE, f"{XDP} $FIRST $LAST on", f"{XDP} $FIRST $LAST off"),
        expect={**LINK_IN, "port": WHOLE},
    ),
)
