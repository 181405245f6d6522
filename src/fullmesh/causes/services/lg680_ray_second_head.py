"""Ray: a head already runs at this address

ray start should start a head at {address}, but a control store (GCS) already listens there.

**Place:** the node with {address}

**Prove:** on that node, run `ss -ltnp` and `ray status`

**Fix:** Run fullmesh-ray stop to end the old head. If this node should join instead, use
fullmesh-ray start, which knows the role of each node.

**Source:** measured
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-680",
    __doc__,
    examples=(
        (
            "ConnectionError: Ray is trying to start at 10.78.2.11:6379, but is already running "
            "at 10.78.2.11:6379. Please specify a different port using the `--port` flag of `ray "
            "start` command."
        ),
    ),
    patterns=(
        Pattern(
            "Ray is trying to start at ",
            r"Ray is trying to start at (?P<address>\S{3,80}:\d{1,5}), but is already running at",
        ),
    ),
    key=("address",),
    weight=95,
)
