"""torchrun: a firewall blocks the random port of the c10d rendezvous

The ranks cannot reach {host}:{port}, which is in the range that the kernel assigns. If you did not
choose this port, torchrun did: --rdzv-backend=c10d opens a second store on a random port, so
opening 29400 and 29500 is not enough.

**Place:** the firewall of {host}, or its port range

**Prove:** on {host}: sysctl net.ipv4.ip_local_port_range, then ./fullmesh verify -i INVENTORY
(VC-107, VC-201 to VC-203)

**Fix:** ./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the range and opens it), or use
torchrun --master-addr/--master-port.

**Source:** measured: (node-h7, 40685), torch/distributed/elastic/rendezvous/dynamic_rendezvous.py
server_port = 0
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.log_ports import describe_port_range, is_kernel_chosen_port
from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, RecordedLog
from fullmesh.causes.store.patterns import CLIENT, describe_connections, is_loopback_host
from fullmesh.observed.ports import HIGHEST_PORT


def derive_hidden_store(fields: Fields, options: ExplainOptions) -> Fields | None:
    """Return the fields of the second store, which torchrun's c10d rendezvous opens on a random port."""
    host, port = fields["host"], int(fields["port"])
    if is_loopback_host(host) or not is_kernel_chosen_port(port, options) or port > HIGHEST_PORT:
        return None
    return {**fields, "range_note": describe_port_range(port, options)}


CAUSE = LogCause(
    "LG-203",
    __doc__,
    examples=(
        (
            "[E socket.cpp:957] [c10d] The client socket has timed out after 600000ms while "
            "trying to connect to (node-h7, 40685)."
        ),
    ),
    patterns=CLIENT,
    explains=(Explains(("LG-201", "LG-205", "LG-210", "LG-302", "LG-316")),),
    key=("host", "port"),
    derive=derive_hidden_store,
    describe=describe_connections,
    weight=78,
    recorded=(
        RecordedLog(
            "a whole torchrun failure",
            (
                "[E socket.cpp:957] [c10d] The client socket has timed out after 600000ms "
                "while trying to connect to (node-h7, 40685).\n"
                "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The "
                "connection to the C10d store has failed.\n"
                "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 1 "
                "closing signal SIGTERM\n"
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
                "============================================================\n"
                "train.py FAILED\n"
                "------------------------------------------------------------\n"
                "Failures:\n"
                "  <NO_OTHER_FAILURES>\n"
                "------------------------------------------------------------\n"
                "Root Cause (first observed failure):\n"
                "[0]:\n"
                "  time      : 2025-05-21_15:43:03\n"
                "  host      : node2\n"
                "  rank      : 1 (local_rank: 0)\n"
                "  exitcode  : 1 (pid: 14750)\n"
                "  error_file: <N/A>\n"
                "  traceback : x\n"
                "============================================================\n"
                ""
            ),
            folded=("LG-301", "LG-304", "LG-310"),
        ),
    ),
)
