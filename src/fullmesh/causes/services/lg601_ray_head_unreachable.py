"""Ray: the head's control store (GCS) cannot be reached

Nothing answered at {address}, the address of the control store of Ray's head. No head runs there,
it listens on another address, or a firewall drops the port.

**Place:** the node with {address}, or a firewall in front of it, not the node that printed this

**Prove:** on that node: ss -ltn. On this node: nc -zv HOST PORT, or run ./fullmesh diagnose -i
INVENTORY (DG-175 names the port and the rule)

**Fix:** Start the head first, with --node-ip-address (fullmesh-ray does). Name the service in
fullmesh_services and run site.yml (docs/services.md).

**Source:** measured, ray#28191
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-601",
    __doc__,
    examples=(
        (
            "[2026-11-24 21:20:23,656 W 1636 1636] rpc_client.h:153: Failed to connect to GCS at "
            "address 10.78.7.11:6379 within 5 seconds."
        ),
    ),
    patterns=(
        Pattern(
            "onnect to GCS",
            r"(?:Failed|[Uu]nable) to connect to GCS at(?: address)? (?P<address>\S{3,80}:\d{1,5})",
        ),
    ),
    explains=(Explains(("LG-602",)),),
    key=("address",),
    weight=88,
    recorded=(
        RecordedLog(
            "ray status without a head",
            (
                "[2026-11-24 21:20:23,656 W 1636 1636] rpc_client.h:153: Failed to connect to "
                "GCS at address 10.78.7.11:6379 within 5 seconds.\n"
                "[2026-11-24 21:20:58,679 W 1636 1636] gcs_client.cc:210: Failed to get "
                "cluster ID from GCS server: TimedOut: Timed out while waiting for GCS to "
                "become available.\n"
                "Traceback (most recent call last):\n"
                '  File "python/ray/includes/common.pxi", line 144, in '
                "ray._raylet.check_status_timeout_as_rpc_error\n"
                "ray.exceptions.RpcError: Timed out while waiting for GCS to become available."
            ),
            folded=("LG-602",),
        ),
    ),
)
