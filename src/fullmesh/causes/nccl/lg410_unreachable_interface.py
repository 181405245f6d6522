"""NCCL: it chose an interface that the peers cannot reach

NCCL{on_host} chose {interface} ({address}), an interface that only containers or this host can use.

**Place:** {host}

**Prove:** ./fullmesh verify -i INVENTORY (VC-601 runs the real NCCL library, without a GPU)

**Fix:** ./fullmesh apply -i INVENTORY --tags launch, or export NCCL_SOCKET_IFNAME==INTERFACE (the
second = makes NCCL match the exact name).

**Source:** measured with the library 2.32.3, NVIDIA/nccl#697, #913, #286, gpustack/gpustack#2275
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, Pattern, RecordedLog
from fullmesh.causes.nccl.patterns import BAD_NETWORK, INSIDE


def derive_log_host(fields: Fields, _options: ExplainOptions) -> Fields:
    """Add the host. Lines that were cut have none."""
    host = fields["host"]
    return {
        **fields,
        "host": host or "the node of this log",
        "on_host": f" on {host}" if host else "",
    }


CAUSE = LogCause(
    "LG-410",
    __doc__,
    examples=("node1:12:12 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>",),
    patterns=(
        Pattern(
            "NCCL INFO Bootstrap",
            r"(?P<host>[^\s:]{1,120}):\d+:\d+ \[\d+\] NCCL INFO Bootstrap ?: Using (?:\[0\])?"
            rf"(?P<interface>{INSIDE}[^\s:]{{0,16}}):(?P<address>[^\s<]{{1,60}})<",
        ),
        # sockets use every interface of the list, not only the first
        Pattern(
            "NET/Socket : Using ",
            r"(?:(?P<host>[^\s:]{1,120}):\d+:\d+ \[\d+\] NCCL )?INFO NET/Socket : Using .{0,1000}?\[\d{1,2}\]"
            rf"(?P<interface>{INSIDE}[^\s:]{{0,16}}|[^\s:]{{1,16}}(?=:fe80:)):(?P<address>[^\s<]{{1,60}})<",
        ),
    ),
    explains=(Explains(("LG-402", "LG-403", "LG-404", "LG-429")),),
    only_with=BAD_NETWORK,
    key=("host", "interface"),
    derive=derive_log_host,
    weight=89,
    recorded=(
        RecordedLog(
            "nccl docker0",
            (
                "node1:12:12 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\n"
                "node2:1:2 [0] socket.cc:1 NCCL WARN socketPollConnect: Connect to "
                "172.17.0.1<51849> returned 111(Connection refused)"
            ),
            folded=("LG-403",),
        ),
        RecordedLog(
            "sockets over bridges of containers",
            (
                "INFO NET/Socket : Using [0]bond0:192.168.1.161<0> "
                "[1]br-05ab815fa14e:172.19.0.1<0> "
                "[2]veth6163fba:fe80::b878:6cff:fe52:abe2%veth6163fba<0>\n"
                "ncclSystemError: System call (socket, malloc, munmap, etc) failed."
            ),
            folded=("LG-422",),
        ),
        RecordedLog(
            "sockets over a link-local address alone",
            (
                "n:1:2 [0] NCCL INFO NET/Socket : Using [0]eth1:10.77.0.11<0> "
                "[1]ib1:fe80::966d:ae03:a2:8cf0%ib1<0>\n"
                "n:1:2 [0] NCCL WARN Connect to fe80::966d:ae03:a2:8cf0%ib1<17943> failed : "
                "Connection timed out"
            ),
            folded=("LG-404", "LG-429"),
        ),
    ),
)
