"""HCCL: a rank did not connect in time

HCCL (Ascend) waited for a connection of another rank, which came too late or not at all. That rank
ended, needs longer than HCCL_CONNECT_TIMEOUT (120 s by default), or cannot be reached.

**Place:** the rank that logs a different error, or no error

**Prove:** compare the times of the ranks' first errors, or hccn_tool -i 0 -ping -g address PEER

**Fix:** Find the rank that failed first, and correct its error. If all only start slowly,
raise HCCL_CONNECT_TIMEOUT on all ranks.

**Source:** vllm-project/vllm-ascend#486, vllm-project/afd-plugin#229
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-722",
    __doc__,
    examples=("[rank1]: EI0006: [PID: 1] 2025-04-08-18:07:20.444.436 Getting socket times out.",),
    patterns=(Pattern("EI0006", r"EI0006\b"),),
    weight=58,
)
