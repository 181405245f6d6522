"""Ray: --ray-client-server-port without Ray's client installed

ray start got a port for Ray Client, and this Ray was installed without [client]: it does not start.

**Where:** the node that printed this

**Prove:** python -c 'import grpc' with Ray's Python

**Fix:** Install ray[client], or leave the option out; fullmesh-ray does where gRPC is missing.

**Source:** measured
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-605",
    __doc__,
    looks=(
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
