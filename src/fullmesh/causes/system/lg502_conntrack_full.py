"""The connection tracking table is full

The kernel drops new connections because its connection tracking table is full.

**Place:** the node of this log

**Prove:** sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max

**Fix:** Raise nf_conntrack_max (kernel_tuning_sysctls), or exempt the cluster's ports from
tracking.

**Source:** kernel nf_conntrack_core.c
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-502",
    __doc__,
    examples=("kernel: nf_conntrack: nf_conntrack: table full, dropping packet",),
    patterns=(Pattern("table full, dropping packet", r"conntrack: table full, dropping packet"),),
    explains=(Explains(("LG-104",)),),
    weight=90,
    recorded=(
        RecordedLog(
            "conntrack",
            (
                "kernel: nf_conntrack: nf_conntrack: table full, dropping packet\n"
                "RuntimeError: Gloo connectFullMesh failed with "
                "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:172] timed out "
                "connecting: SO_ERROR: Connection timed out, remote=[10.77.0.11]:10653$0"
            ),
            folded=("LG-104",),
        ),
    ),
)
