"""Cases of DG-181."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Break, Change, block_links, combine, set_survey_part
from causes.faults import BARE, LINK_IN, OUTSIDE, WHOLE, Fault, make_step
from fullmesh.settings import ROOT


def attach_program(where: str, card: str) -> Break:
    """Attach a program to an interface or a control group."""
    return set_survey_part(
        "hooks", [{"at": where, "card": card, "what": "a program without a name (id 7)"}]
    )


# From outside, because a container may not load programs into the host's kernel.
XDP = f"nsenter -t $V_PID -n -- python3 {ROOT}/tests/support/xdp_drop.py eth1"


CHANGES = {
    "xdp": Change(UB, combine(block_links(place="on_the_way"), attach_program("xdp", "eth1"))),
    "tc": Change(UB, combine(block_links(), attach_program("tc ingress", "eth1"))),
    "bpf of a control group": Change(
        UB, combine(block_links(), attach_program("cgroup ingress", ""))
    ),
}
FAULTS = (
    Fault(
        "xdp",
        BARE,
        make_step(OUTSIDE, f"{XDP} $FIRST $LAST on", f"{XDP} $FIRST $LAST off"),
        expect={**LINK_IN, "port": WHOLE},
    ),
)
