"""Gloo: the node's own host name does not resolve, so Gloo uses loopback

This node's own host name does not resolve to one of its addresses, so Gloo fell back to loopback,
which no other node can reach.

**Place:** the node of this log

**Prove:** on that node: getent ahosts "$(hostname)" (or ./fullmesh verify -i INVENTORY: VC-102)

**Fix:** ./fullmesh apply -i INVENTORY --tags network (role name_resolution), or export
GLOO_SOCKET_IFNAME.

**Source:** measured, vllm-project/vllm#7074, aws-samples/aws-do-eks#69
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-109",
    __doc__,
    examples=(
        (
            "[W ProcessGroupGloo.cpp:717] Warning: Unable to resolve hostname to a (local) "
            "address. Using the loopback address as fallback. Manually set the network interface "
            "to bind to with GLOO_SOCKET_IFNAME. (function operator())"
        ),
    ),
    patterns=(Pattern("Unable to resolve hostname to a (local) address"),),
    explains=(Explains(("LG-101", "LG-106")),),
    weight=91,
    recorded=(
        RecordedLog(
            "gloo loopback after a warning",
            (
                "[W ProcessGroupGloo.cpp:717] Warning: Unable to resolve hostname to a (local) "
                "address. Using the loopback address as fallback.\n"
                "RuntimeError: Gloo connectFullMesh failed with "
                "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:172] timed out "
                "connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:26526$1"
            ),
            folded=("LG-106",),
        ),
    ),
)
