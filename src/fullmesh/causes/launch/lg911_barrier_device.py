"""Harmless: barrier does not know the rank's GPU

barrier() guessed the rank's GPU. It matters only if a rank does not use the GPU of its local rank.

**Prove:** print torch.cuda.current_device() on each rank

**Fix:** Pass device_id to init_process_group or call torch.cuda.set_device(local_rank) first.

**Source:** read: ProcessGroupNCCL.cpp barrier
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-911",
    __doc__,
    examples=(
        (
            "[rank0]:[W1 ProcessGroupNCCL.cpp:4715] [PG ID 0 PG GUID 0 Rank 0]  using GPU 0 as "
            "device used by this process is currently unknown. This can potentially cause a hang "
            "if this rank to GPU mapping is incorrect."
        ),
    ),
    patterns=(
        Pattern("by this process is currently unknown"),
        Pattern("by this process are currently unknown"),
    ),
    severity=Severity.HARMLESS,
    recorded=(
        RecordedLog(
            "barrier's device",
            (
                "[rank0]:[W1 ProcessGroupNCCL.cpp:4715] using GPU 0 as device used by this "
                "process is currently unknown. This can potentially cause a hang if this rank "
                "to GPU mapping is incorrect."
            ),
            heads=(),
            harmless=("LG-911",),
        ),
    ),
)
