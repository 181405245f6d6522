"""a fixed port lies inside the range that the kernel gives out

The kernel gives any port of its range to any outgoing connection. A fixed port in there is taken now and then, which
gives EADDRINUSE at random.

**Prove:** sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports

**Fix:** Choose a port outside the range, or reserve it.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains

CAUSE = Cause(
    "DG-112",
    __doc__,
    weight=530,
    explains=(Explains(("DG-128",)),),
    cases=(CauseCase("port-in-range", "MASTER_PORT=50004 in the job's environment on every node"),),
)
