"""Ray: the head declared a node dead

The node {address} did not answer the head's health checks, so the head declared it dead.

**Place:** the node {address}: its raylet ended (memory, a signal), or the head cannot reach it

**Prove:** on that node, read `dmesg` and /tmp/ray/session_latest/logs/raylet.out

**Fix:** Correct the error in the raylet's log. If the raylet is still running, open the connection
that ./fullmesh diagnose -i INVENTORY names.

**Source:** measured, vllm-project/vllm#19960
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-682",
    __doc__,
    examples=(
        (
            "The node with node id: 755a9e09bb516d7ebb7ddbe7d3e76950c85cf881229317ddaa95cdc4 and "
            "address: 10.77.2.12 and node name: 10.77.2.12 has been marked dead because the "
            "detector has missed too many heartbeats from it."
        ),
        (
            "[Timeout] Exiting because this node manager has mistakenly been marked as dead by the "
            "GCS: GCS failed to check the health of this node for 5 times."
        ),
    ),
    patterns=(
        Pattern(
            "has been marked dead because the detector",
            r"and address: (?P<address>\S{3,80}) and node name: .{1,120} has been marked dead",
        ),
        Pattern(
            "actor died because its node has died",
            r"actor died because its node has died\. Node Id: (?P<address>\w{3,80})",
        ),
        # the raylet itself, in a different log than the head's
        Pattern("mistakenly been marked as dead by the GCS", fields=(("address", "of this log"),)),
        Pattern(
            "due to the node dying",
            r"NodeDiedError: .{0,80}due to the node dying",
            fields=(("address", "of a task"),),
        ),
    ),
    severity=Severity.SYMPTOM,
    key=("address",),
    weight=60,
)
