"""Ray: a command gave up waiting for the control store

A command or driver of Ray waited for the control store (GCS) and gave up.

**Place:** the head's node, not the node that printed this

**Prove:** run `fullmesh-ray status`, or ./fullmesh diagnose -i INVENTORY (DG-175 names the port and
the rule)

**Fix:** Start the head, or open its port. Name the service in fullmesh_services and run site.yml
(docs/services.md).

**Source:** measured
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-602",
    __doc__,
    examples=(
        (
            "[2026-11-24 21:20:58,679 W 1636 1636] gcs_client.cc:210: Failed to get cluster ID "
            "from GCS server: TimedOut: Timed out while waiting for GCS to become available."
        ),
        "ray.exceptions.RpcError: Timed out while waiting for GCS to become available.",
    ),
    patterns=(Pattern("Timed out while waiting for GCS to become available"),),
    severity=Severity.SYMPTOM,
    weight=70,
)
