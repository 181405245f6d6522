"""Ray: --ray-client-server-port is set, but Ray's client is not installed

ray start got a port for Ray Client, but this Ray was installed without the extra [client], so it
does not start.

**Place:** the node that printed this

**Prove:** python -c 'import grpc' with Ray's Python

**Fix:** Install ray[client], or omit the option (fullmesh-ray does if gRPC is missing).

**Source:** measured
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-605",
    __doc__,
    examples=(
        (
            "Ray Client requires pip package `ray[client]`. If you installed the minimal Ray "
            "(e.g. `pip install ray`), please reinstall by executing `pip install ray[client]`."
        ),
    ),
    patterns=(Pattern("Ray Client requires pip package `ray[client]`"),),
    weight=95,
    recorded=(
        RecordedLog(
            "ray without its client",
            (
                "ValueError: Ray Client requires pip package `ray[client]`. If you installed "
                "the minimal Ray (e.g. `pip install ray`), please reinstall by executing `pip "
                "install ray[client]`."
            ),
        ),
    ),
)
