"""a firewall opens only a part of the data range

Gloo and NCCL take any port of the range, so a job works or hangs by chance. Listeners at both ends, evenly between
them and on both sides of every border that a rule draws show which stretches are shut.

**Prove:** nft list ruleset | grep dport; compare with sysctl net.ipv4.ip_local_port_range

**Fix:** Open the whole range to the peers, or pin the kernel's range to what is open.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, has_same_blocked_ports

CAUSE = Cause(
    "DG-101",
    __doc__,
    weight=710,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "range-half",
            "the only input chain drops a part of the data range, such as its upper half",
            fields=LINK,
        ),
    ),
)
