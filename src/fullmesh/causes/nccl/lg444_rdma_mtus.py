"""NCCL: the nodes' RDMA ports have different MTUs

NCCL's RDMA connections failed, and the ports do not have the same MTU: {mtus}. Since version 2.20,
NCCL does not use the lower one, so large messages are lost.

**Place:** the node whose MTU differs

**Prove:** on every node, run `ibv_devinfo | grep -E 'hca_id|active_mtu'` and `ip link` (RoCE uses
the MTU of the interface), or ./fullmesh verify -i INVENTORY (VC-110)

**Fix:** Set one MTU on the interfaces of all nodes and on the switch (9000 gives an RDMA MTU of
4096), and restart the job.

**Source:** NVIDIA/nccl#1524, read: NCCL's net_ib.cc prints the MTU of each port
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import (
    NCCL_LINE,
    Fact,
    LogCause,
    LogEvidence,
    LogFinding,
    LogLine,
    Pattern,
    RecordedLog,
)

MTU = Fact(
    "RDMA MTU",
    Pattern("NET/IB: ", NCCL_LINE + r"NET/IB: [^\n]{1,80}\bqpn \d{1,9} mtu (?P<mtu>[1-5])\b"),
)
FAILED = tuple(
    Fact("RDMA failed", pattern)
    for pattern in (
        Pattern("Got completion ", r"NET/IB ?: ?.{0,40}Got completion (?:from peer|with)"),
        Pattern("Got async event", r"Got async event ?: .{0,40}work queue error"),
    )
)
SMALLEST = 128  # bytes; each step of libibverbs' numbers doubles it
HOSTS_SHOWN = 4


def find_mtus(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find hosts whose ports have no common MTU, if RDMA failed."""
    known = evidence.facts
    mtus: dict[str, set[int]] = {}
    lines: dict[str, LogLine] = {}
    for (host, step), line in known.of("RDMA MTU"):
        mtus.setdefault(host, set()).add(SMALLEST << int(step))
        lines.setdefault(host, line)
    failed = known.of("RDMA failed")
    if failed and len(mtus) > 1 and not set.intersection(*mtus.values()):
        text = ", ".join(
            f"{' and '.join(map(str, sorted(found)))} on {host}"
            for host, found in list(mtus.items())[:HOSTS_SHOWN]
        )
        yield CAUSE.make_finding({"mtus": text}, [*lines.values(), failed[0][1]])


LOG = """\
node1:300:320 [0] NCCL INFO NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 1040 mtu 5 GID 3 (0/A10B0A0AFFFF0000)
node2:400:420 [0] NCCL INFO NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 1041 mtu {mtu} GID 3 (0/A20B0A0AFFFF0000)
node1:300:330 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.8<38560> with \
error 12, opcode 0, len 0, vendor err 129"""

CAUSE = LogCause(
    "LG-444",
    __doc__,
    find=find_mtus,
    facts=(MTU, *FAILED),
    explains=(Explains(("LG-412", "LG-415", "LG-421", "LG-422")),),
    weight=88,
    recorded=(
        RecordedLog("two MTUs", LOG.format(mtu=3), folded=("LG-412",)),
        RecordedLog("one MTU", LOG.format(mtu=5), heads=("LG-412",)),
    ),
)
