"""Ray: the range of worker ports is too small

A worker of Ray found no free port between --min-worker-port and --max-worker-port. The range must
have more ports than there are workers, actors and drivers together. Tasks that wait for such a
worker hang.

**Place:** the node that printed this

**Prove:** on that node, compare `ray status` with the number of ports of the range that `ss -ltn`
lists

**Fix:** Widen the part workers of ray in fullmesh_services to at least twice the number of CPUs,
and restart Ray.

**Source:** ray#28071
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-603",
    __doc__,
    examples=(
        (
            "(raylet) [2022-08-23 15:13:15,557 E 223585 223585] core_worker.cc:137: Failed to "
            "register worker a20a041a81c6dc5a5709d7e342bd95bec33fd5b2b181fcce5a4d9221 to Raylet. "
            "Invalid: Invalid: No available ports. Please specify a wider port range using "
            "--min-worker-port and --max-worker-port."
        ),
    ),
    patterns=(
        Pattern("No available ports. Please specify a wider port range using --min-worker-port"),
    ),
    weight=94,
)
