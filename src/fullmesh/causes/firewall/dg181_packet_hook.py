"""a program or filter (XDP, tc, BPF) stands where the packets of a link end

An XDP program sees what a card receives before any tap or packet filter; filters of tc stand between tap and packet
filter; BPF programs of a control group see what its processes send and get. None of them is in nft's list. That one
drops the packets is not proved: it is the only one known who could.

**Prove:** ip -d link show CARD; tc filter show dev CARD ingress; bpftool net; bpftool cgroup tree

**Fix:** ip link set dev CARD xdp off, tc filter del, or a rule for the peers in whatever loads it.

**Source:** measured: native XDP on veth drops without any reason or counter (kernel 6.18)
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import LINKS, WALLS, is_return_path

CAUSE = Cause(
    "DG-181",
    __doc__,
    weight=930,
    explains=(Explains((*LINKS, *WALLS, "DG-180", "DG-138", "DG-139"), is_return_path),),
    cases=(CauseCase("xdp", "an XDP program at the card that drops the data range", fields=LINK),),
)
