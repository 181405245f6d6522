"""SHARP: the subnet manager runs on the port

SHARP cannot use port {port} of {device}, because the subnet manager (SM) runs on it. NCCL's CollNet
continues without SHARP or fails.

**Place:** the InfiniBand port of the node of this log

**Prove:** on that node, run `sminfo` and `systemctl status opensm`

**Fix:** Run the subnet manager on a switch or on another node, or leave SHARP off
(NCCL_COLLNET_ENABLE=0).

**Source:** NVIDIA/nccl#1219
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-437",
    __doc__,
    examples=(
        (
            "[nodeB:1:28576 unique id 12] ERROR collect_ports_data: device mlx5_0 port 1 is not "
            "valid (port is used by SM)"
        ),
    ),
    patterns=(
        Pattern(
            "port is used by SM",
            r"device (?P<device>\S{1,40}) port (?P<port>\d{1,3}) is not valid \(port is used by SM\)",
        ),
    ),
    weight=80,
)
