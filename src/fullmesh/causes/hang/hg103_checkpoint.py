"""A rank has not entered a collective: it writes or reads a checkpoint

The rank is in torch.save, torch.load, safetensors or torch.distributed.checkpoint. The other ranks
wait for it in the next collective. This is normal for a while on rank 0 if it alone writes
checkpoints.

**Prove:** py-spy dump --pid PID on that rank's node, twice, a few seconds apart, and df -h

**Fix:** Use a faster disk or free space on it, or async_save of torch.distributed.checkpoint. Set
the timeout of the process group above the time of the slowest checkpoint.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_checkpoint_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that write or read a checkpoint."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.CHECKPOINT,
        LateMessage(
            "is still writing or reading a checkpoint{at}",
            "are still writing or reading checkpoints{at}",
            "a checkpoint that is complete before the timeout",
            "check whether the disk is full or slow (df, iostat). Set a timeout above the time of the slowest "
            "checkpoint, or use "
            "torch.distributed.checkpoint.async_save",
        ),
    )


CAUSE = HangCause(
    "HG-103",
    __doc__,
    find=find_checkpoint_ranks,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
