"""Ray: no Ray runs for this program

The program wants to join a running Ray, but found none on this node. `ray start` did not run here,
runs as another user or in another container, or has ended.

**Place:** the node of this log, in the program's container

**Prove:** on that node, as the same user: ray status; ls /tmp/ray

**Fix:** Run `ray start` on this node first, or set RAY_ADDRESS (HEAD:6379) and start the program in
the container of Ray.

**Source:** read: Ray's worker.py and services.py
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-617",
    __doc__,
    examples=(
        "ConnectionError: Could not find any running Ray instance. Please specify the one to connect to",
    ),
    patterns=(
        Pattern("Could not find any running Ray instance"),
        Pattern("Ray has not been started yet", r"rror: .{0,40}Ray has not been started yet"),
    ),
    weight=80,
)
