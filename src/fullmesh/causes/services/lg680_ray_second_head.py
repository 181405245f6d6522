"""Ray: a second head, or one that still runs

ray start was to start a head at {address}, and a control store (GCS) listens there already.

**Where:** the node with {address}

**Prove:** on that node: ss -ltnp; ray status

**Fix:** fullmesh-ray stop ends the one of before. A node that is to join is no head: fullmesh-ray
start knows which it is.

**Source:** measured
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-680",
    __doc__,
    looks=(
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
