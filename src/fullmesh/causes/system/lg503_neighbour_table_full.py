"""The neighbour (ARP) table is full

The kernel's neighbour table overflows: the node has more peers than
net.ipv4.neigh.default.gc_thresh3 allows.

**Place:** the node of this log

**Prove:** compare `ip neigh | wc -l` with `sysctl net.ipv4.neigh.default.gc_thresh3`

**Fix:** Raise gc_thresh1, 2 and 3 (kernel_tuning_sysctls) to a multiple of the number of nodes.

**Source:** measured: 64 hosts, exactly 1024 of 4032 connections worked with gc_thresh3=1024
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-503",
    __doc__,
    examples=("kernel: neighbour: arp_cache: neighbor table overflow!",),
    patterns=(Pattern("neighbor table overflow"), Pattern("eighbour table overflow")),
    explains=(Explains(("LG-104",)),),
    weight=90,
)
