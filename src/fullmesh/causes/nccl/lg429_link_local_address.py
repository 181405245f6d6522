"""NCCL: it tries to reach a link-local address

NCCL's connection to {peer} failed, because that is a link-local address (169.254.0.0/16 or
fe80::/10). A node announced an interface without a cluster address, for example that of a BMC, a
local DNS cache or an unconfigured cable.

**Place:** the node that announced {peer}

**Prove:** run `ip -brief addr | grep -E '169.254|fe80'` on every node, or ./fullmesh verify -i
INVENTORY (VC-601)

**Fix:** Set NCCL_SOCKET_IFNAME to the cluster's interface on each node: ./fullmesh apply -i
INVENTORY -- --tags launch (role cluster_env).

**Source:** sgl-project/sglang#6017, uccl-project/uccl#1034
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-429",
    __doc__,
    examples=(
        (
            "node1:1:2 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to "
            "169.254.20.10<43369> failed : Network is unreachable"
        ),
    ),
    patterns=(
        Pattern(
            "onnect to ",
            r"[Cc]onnect to (?P<peer>169\.254\.[\d.]{3,7}|fe80:[^\s<]{1,60})<\d{1,5}> (?:failed|returned)",
        ),
    ),
    explains=(Explains(("LG-402", "LG-403", "LG-404")),),
    key=("peer",),
    weight=87,
)
