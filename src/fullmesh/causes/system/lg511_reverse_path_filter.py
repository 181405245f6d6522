"""The kernel drops packets that arrive on a different interface than their replies would use

The kernel received packets from {peer} on {interface}, but it would send the replies over another
interface (martian source). rp_filter=1 drops such packets.

**Place:** the node of this log

**Prove:** run `ip route get {peer}`, `sysctl net.ipv4.conf.all.rp_filter` and `nstat -az
TcpExtIPReversePathFilter`

**Fix:** Use one network per interface on both nodes (fullmesh_links: routes), or set rp_filter=2.

**Source:** measured: two NICs and rp_filter=1 look like DROP, NVIDIA/nccl#1581
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-511",
    __doc__,
    examples=("kernel: IPv4: martian source 10.77.0.11 from 10.77.0.12, on dev eth1",),
    patterns=(
        Pattern(
            "martian source",
            r"martian source \S{1,45} from (?P<peer>[\d.]{7,15}), on dev (?P<interface>\S{1,16})",
        ),
    ),
    explains=(Explains(("LG-104",)),),
    key=("peer",),
    weight=85,
)
