"""Open MPI: its old InfiniBand transport cannot use the port

Open MPI's openib transport (BTL) cannot use a port of the RDMA NIC and is off for it. Without UCX,
MPI then uses TCP or finds no path to the peers. With UCX, the message is harmless.

**Place:** the node of this log

**Prove:** ompi_info | grep -E 'btl|pml' (is UCX there?), and ibstat on that node (is the port
active?)

**Fix:** Use UCX: mpirun --mca pml ucx --mca btl ^openib. Without UCX, use TCP on the cluster's
interface: mpirun --mca btl tcp,self --mca btl_tcp_if_include INTERFACE.

**Source:** read: Open MPI's FAQ on OpenFabrics
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-753",
    __doc__,
    examples=(
        "No OpenFabrics connection schemes reported that they were able to be",
        "WARNING: No preset parameters were found for the device that Open MPI",
    ),
    patterns=(
        Pattern("No OpenFabrics connection schemes"),
        Pattern("No preset parameters were found for the device"),
    ),
    severity=Severity.SYMPTOM,
    survivable=True,
    weight=40,
)
