"""Ray: the head cannot reach a node that joined

A node joined with the address {address}, but the head cannot connect to it there ({why}) and
declares it dead. The node announced an address of another network, or its ports are blocked.

**Place:** the node with {address}

**Prove:** find the node's address in `ray status`. On the head, run `nc -zv HOST PORT` or
./fullmesh diagnose -i INVENTORY (DG-175 names the port and the rule)

**Fix:** Start it with the cluster's address (--node-ip-address, which fullmesh-ray sets). Name the
service in fullmesh_services and run site.yml (docs/services.md).

**Source:** measured, with the address of another interface
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-681",
    __doc__,
    examples=(
        (
            "[2026-11-25 04:30:02,814 W 1803 1803] (gcs_server) gcs_health_check_manager.cc:209: "
            "Health check failed for node "
            "755a9e09bb516d7ebb7ddbe7d3e76950c85cf881229317ddaa95cdc4, remaining checks 0, "
            "status 14, response status 0, status message failed to connect to all addresses; "
            "last error: UNKNOWN: ipv4:10.77.2.12:50077: Failed to connect to remote host: No "
            "route to host, status details"
        ),
    ),
    patterns=(
        Pattern(
            "Health check failed for node",
            r"Health check failed for node .{0,300}ipv[46]:(?P<address>\S{3,80}:\d{1,5}): Failed to connect to"
            r" remote host: (?P<why>[^,]{1,60})",
        ),
    ),
    explains=(Explains(("LG-682",)),),
    key=("address",),
    weight=92,
)
