"""HCCL: the NPU or its memory is in use

HCCL (Ascend) cannot start on an NPU ({detail}). Processes of an earlier job still run on it, or the
device has no memory left for HCCL's buffers and queues.

**Place:** the NPUs of the node of this log

**Prove:** on that node, run `npu-smi info` (processes and memory of each NPU)

**Fix:** End processes of an earlier job. If memory is short, leave more of it free (vLLM:
--gpu-memory-utilization), or lower HCCL_BUFFSIZE.

**Source:** vllm-project/vllm-ascend#2643, read: Huawei's list of HCCL's error codes
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-751",
    __doc__,
    examples=(
        (
            "RuntimeError: EI0007: [PID: 50935] 2025-09-10-03:36:31.100.592 Failed to allocate "
            "resource[qp] with info [aicpu rank:7]. Reason: Memory resources are exhausted."
        ),
        (
            "EJ0001: [PID: 1234] 2025-04-08-18:07:20.444.436 Failed to initialize the HCCP process. "
            "Reason: Maybe the last training process is running."
        ),
    ),
    patterns=(
        Pattern("EI0007", r"EI0007\b.{0,60}?(?P<detail>Failed to allocate resource ?\[\w{1,40}\])"),
        Pattern("EJ0001", r"EJ0001\b.{0,60}?(?P<detail>Failed to initialize the HCCP process)"),
    ),
    explains=(Explains(("LG-304", "LG-722", "LG-746")),),
    weight=86,
)
