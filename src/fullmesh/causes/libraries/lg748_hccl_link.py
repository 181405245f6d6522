"""HCCL: RDMA packets do not arrive (error CQE)

RDMA between two Ascend NPUs failed after all retries{detail}. A link between them is down or lossy, or the other
process ended first.

**Place:** the path between the two NPUs, or the rank at the other end

**Prove:** on both nodes: hccn_tool -i 0 -link -g; hccn_tool -i 0 -ping -g address PEER; hccn_tool -i 0 -stat -g

**Fix:** If another rank has an earlier error, correct that. Otherwise check the cable, the optical module and PFC of
the switch ports in the path.

**Source:** read: Huawei's guide to HCCL (EI0013)
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-748",
    __doc__,
    examples=(
        (
            "[PID: 1] 2025-12-04-21:59:08.232.310 Execution Error ROCE CQE(EI0013): An error CQE occurred during "
            "operator execution. Local information: server 10.0.0.1, device ID 0, device IP 10.1.0.1. Peer "
            "information: server 10.0.0.2, device ID 1, device IP 10.1.0.2."
        ),
    ),
    patterns=(
        Pattern(
            "EI0013",
            r"EI0013\b(?:.{0,250}?Peer information:(?P<detail> server [\w.:%-]{1,60}, device ID \d{1,4}))?",
        ),
        Pattern("error cqe status: ", r"error cqe status: 0x15(?P<detail>)"),
    ),
    explains=(Explains(("LG-722", "LG-746")),),
    weight=78,
)
