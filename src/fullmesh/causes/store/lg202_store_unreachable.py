"""Store: a rank cannot reach the store's port

A rank could not reach {kind} at {host}:{port}: the port is blocked, the address is wrong, or rank 0
does not listen there, or not yet (another node needed longer to start).

**Place:** the firewall of {host}, or rank 0 if it never started there. This log is the client's.

**Prove:** run ./fullmesh verify -i INVENTORY (VC-301 in check L3). On {host}, while the job starts:
ss -ltnp 'sport = :{port}' (if nothing listens, read rank 0's log)

**Fix:** ./fullmesh apply -i INVENTORY --tags firewall (opens the port to the peers). MASTER_PORT
must be the same on all nodes.

**Source:** measured: drop, reset and icmp reject of port 29500, OpenRLHF/OpenRLHF#1040
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.log_ports import is_kernel_chosen_port
from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, RecordedLog
from fullmesh.causes.store.patterns import CLIENT, describe_connections, is_loopback_host

KINDS = {29500: "the master port", 29400: "the rendezvous port"}


def derive_fixed_store(fields: Fields, options: ExplainOptions) -> Fields | None:
    """Return the fields of a store whose port was configured, not picked by the kernel."""
    host, port = fields["host"], int(fields["port"])
    if is_loopback_host(host) or is_kernel_chosen_port(port, options):
        return None

    return {**fields, "kind": KINDS.get(port, "the store's port")}


CAUSE = LogCause(
    "LG-202",
    __doc__,
    examples=(
        (
            "[E socket.cpp:957] [c10d] The client socket has timed out after 600000ms while "
            "trying to connect to (node1, 29500)."
        ),
        "The client socket has failed to connect to any network address of (node1, 29500).",
    ),
    patterns=CLIENT,
    explains=(Explains(("LG-201", "LG-205", "LG-210", "LG-302", "LG-316")),),
    key=("host", "port"),
    derive=derive_fixed_store,
    describe=describe_connections,
    weight=66,
    recorded=(
        RecordedLog(
            "store port blocked, old wording",
            (
                "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while "
                "trying to connect to 192.0.0.1:1234."
            ),
        ),
        RecordedLog(
            "store port rejected",
            (
                "[W socket.cpp:697] [c10d] The client socket has failed to connect to "
                "215.85.0.0:22671 (errno: 113 - No route to host).\n"
                "[E socket.cpp:957] The client socket has failed to connect to any network "
                "address of (fd78::11, 29500)."
            ),
            folded=("LG-205",),
        ),
        RecordedLog(
            "rendezvous",
            (
                "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while "
                "trying to connect to 192.0.0.1:1234.\n"
                "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The "
                "connection to the C10d store has failed. See inner exception for details."
            ),
            folded=("LG-301",),
        ),
    ),
)
