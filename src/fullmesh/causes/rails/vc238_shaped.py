"""Traffic shaping slows a rail down

A queue limits, loses or delays the packets of a rail's interface. Scripts, libvirt and container
network plugins leave such queues behind. RDMA hardware sends past them, but sockets and soft-RoCE
do not.

**Prove:** tc -s qdisc show dev INTERFACE

**Fix:** tc qdisc del dev INTERFACE root. Then find the program that adds it.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_root_end

CAUSE = Cause(
    "VC-238",
    __doc__,
    # found by VC-231
    weight=630,
    explains=(Explains(("VC-224", "VC-230", "DG-199"), has_root_end),),
    cases=(CauseCase("rail-shaped", "tc tbf or netem on a rail's interface", by=RECORDED),),
)
