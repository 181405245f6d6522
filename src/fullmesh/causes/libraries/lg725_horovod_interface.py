"""Horovod: no common interface of the hosts reaches the driver

A host could not reach horovodrun on any of its addresses. No interface name is routable on every
host, or only loopback and container addresses were offered.

**Place:** the hosts' interfaces

**Prove:** on every host: ip -brief addr (which interface has the cluster's address everywhere?)

**Fix:** Name it: horovodrun --network-interfaces INTERFACE.

**Source:** horovod/horovod#1969, #994
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-725",
    __doc__,
    examples=(
        (
            "horovod.run.common.util.network.NoValidAddressesFound: Horovodrun was unable to "
            "connect to the horovodrun driver service on any of the following addresses: {'lo': "
            "[('127.0.0.1', 23411)]}."
        ),
    ),
    patterns=(
        Pattern("NoValidAddressesFound: "),
        Pattern(
            "on any of the following addresses",
            r"unable to connect .{1,80} on any of the following addresses",
        ),
    ),
    weight=84,
)
