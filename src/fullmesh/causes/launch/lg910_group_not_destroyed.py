"""Harmless: the process group was not destroyed at exit

The program ended without dist.destroy_process_group(). With NCCL this is harmless at the end of a
successful run.

**Prove:** check whether the run's result exists

**Fix:** Call torch.distributed.destroy_process_group() at the end.

**Source:** read: ProcessGroupNCCL.cpp destructor
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-910",
    __doc__,
    examples=(
        (
            "[rank0]:[W830 18:43:46.210410361 ProcessGroupNCCL.cpp:1250] Warning: WARNING: "
            "process group has NOT been destroyed before we destruct ProcessGroupNCCL."
        ),
    ),
    patterns=(
        Pattern("process group has NOT been destroyed"),
        Pattern("destroy_process_group() was not called"),
    ),
    severity=Severity.HARMLESS,
    recorded=(
        RecordedLog(
            "not destroyed",
            (
                "[rank0]:[W830 18:43:46 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process "
                "group has NOT been destroyed before we destruct ProcessGroupNCCL."
            ),
            heads=(),
            harmless=("LG-910",),
        ),
    ),
)
