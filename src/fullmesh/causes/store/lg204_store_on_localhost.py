"""Store: a rank looks for rank 0 on its own node (localhost)

A rank looked for the store at {host}:{port}, which is its own node. MASTER_ADDR is a loopback
address or resolves to one.

**Place:** the node of this log

**Prove:** on that node: getent ahosts "$MASTER_ADDR", or run ./fullmesh verify -i INVENTORY
(VC-101)

**Fix:** ./fullmesh apply -i INVENTORY --tags network,launch sets MASTER_ADDR to rank 0's cluster
address on every node.

**Source:** measured
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, RecordedLog
from fullmesh.causes.store.patterns import CLIENT, describe_connections, is_loopback_host


def derive_loopback_store(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """Return the fields of a store that a rank looks for on its own host."""
    return fields if is_loopback_host(fields["host"]) else None


CAUSE = LogCause(
    "LG-204",
    __doc__,
    examples=(
        (
            "[E socket.cpp:957] [c10d] The client socket has timed out after 600000ms while "
            "trying to connect to (localhost, 29500)."
        ),
    ),
    patterns=CLIENT,
    explains=(Explains(("LG-201", "LG-205", "LG-210", "LG-302", "LG-316")),),
    key=("host", "port"),
    derive=derive_loopback_store,
    describe=describe_connections,
    weight=86,
    recorded=(
        RecordedLog(
            "localhost",
            (
                "[E socket.cpp:957] [c10d] The client socket has timed out after 600000ms "
                "while trying to connect to (localhost, 29500).\n"
                "Timed out after 11 seconds waiting for clients. 1/2 clients joined."
            ),
            folded=("LG-201",),
        ),
    ),
)
