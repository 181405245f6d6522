"""a rank has not entered a collective: it writes or reads a checkpoint

A rank is in torch.save, torch.load, safetensors or torch.distributed.checkpoint, and the others
have gone on to the next collective. Usual on rank 0, which alone writes.

**Prove:** py-spy dump --pid PID on that rank's node, twice, some seconds apart; df -h; iostat -x 1

**Fix:** A faster or emptier disk; async_save of torch.distributed.checkpoint; a timeout of the
process group above the slowest checkpoint's time.

**Source:** recorded of Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_checkpoint_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Every rank comes to the collective that the others are in."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.CHECKPOINT,
        LateMessage(
            "is still writing or reading a checkpoint{at}",
            "are still writing or reading checkpoints{at}",
            "the checkpoint is written before the others' patience ends",
            "see whether the disk is full or slow (df, iostat); a timeout above the time of the slowest checkpoint, or "
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
