"""NCCL: an RDMA port lost its link while the job ran

The driver reported a port error to NCCL{device}: the link of an RDMA NIC went down, perhaps only
for a moment. A cable, an optic, the switch port or its settings can cause this. The peers then log
timeouts.

**Place:** the node of this log: its RDMA NIC, cable and switch port

**Prove:** on that node, run `journalctl -k | grep -iE 'mlx|link (up|down)'`, `rdma link` and `grep
. /sys/class/infiniband/*/ports/1/counters/link_downed`, or ./fullmesh verify -i INVENTORY

**Fix:** Reseat or replace the cable or optic, or use another switch port. Until then, exclude the
NIC with NCCL_IB_HCA.

**Source:** NVIDIA/nccl#905, read: libibverbs' names of events
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-443",
    __doc__,
    examples=(
        "node7:4100:4188 [3] transport/net_ib.cc:95 NCCL WARN NET/IB : Got async event : port error",
        (
            "node7:4100:4188 [3] transport/net_ib.cc:110 NCCL WARN NET/IB : mlx5_3:1 Got async "
            "event : port error"
        ),
    ),
    patterns=(
        Pattern(
            "Got async event",
            r"NET/IB ?:(?P<device> [\w.-]{1,40}:\d{1,3})? Got async event ?: port error",
        ),
        Pattern(
            "async fatal event",
            r"NET/IB ?:(?P<device> [\w.-]{1,40}:\d{1,3}) async fatal event.{0,80}: (?:port|local catastrophic) error",
        ),
    ),
    explains=(Explains(("LG-412", "LG-415", "LG-421", "LG-422")),),
    weight=89,
    recorded=(
        RecordedLog(
            "a flapping link, and a timeout",
            (
                "node7:4100:4188 [3] transport/net_ib.cc:95 NCCL WARN NET/IB : Got async event : "
                "port error\n"
                "node7:4100:4170 [3] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion "
                "from peer 10.0.0.8<38560> with error 12, opcode 0, len 0, vendor err 129"
            ),
            folded=("LG-412",),
        ),
    ),
)
