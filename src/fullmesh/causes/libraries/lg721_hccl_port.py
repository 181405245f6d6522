"""HCCL: its port on the host is in use

HCCL (Ascend) could not listen on port {port} of the host: another job on this host uses the same
base port.

**Place:** the node of this log

**Prove:** on that node: ss -ltnp | grep :60000 (HCCL's default base port)

**Fix:** Give each job its own HCCL_IF_BASE_PORT, and end processes of an earlier job.

**Source:** vllm-project/vllm-ascend#405, #16205
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-721",
    __doc__,
    examples=(
        (
            "[rank0]:         host nic listen start failed, port[60000], "
            "return[11][FUNC:StartListenSocket]"
        ),
        (
            "[rank0]: EJ0003: [PID: 159] Failed to bind the IP port. Reason: The IP address and "
            "port have been bound already."
        ),
    ),
    patterns=(
        Pattern("host nic listen start failed", r"listen start failed, port\[(?P<port>\d{1,5})\]"),
        Pattern("EJ0003", r"EJ0003\b(?P<port>)"),
    ),
    weight=90,
)
