"""A rank has not entered a collective: it waits for input at its terminal

The rank reads its terminal: input(), breakpoint(), or a tool's question (`Overwrite? [y/n]`). Under
torchrun or Slurm, the user does not see the question.

**Prove:** cat /proc/PID/stat /proc/PID/wchan /proc/PID/syscall (descriptor 0 is standard input)

**Fix:** Answer it if the rank has a terminal. Otherwise remove the call, or start the job with `<
/dev/null`, so that it fails at once.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_input_waits(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that wait for input at a terminal or debugger."""
    yield from find_late_ranks(
        job,
        CAUSE,
        ActivityKind.INPUT,
        LateMessage(
            "waits for input at its terminal{at}",
            "wait for input at their terminals{at}",
            "no rank reads its standard input",
            "remove the call from the script, or answer it if the rank has a terminal",
        ),
    )
    yield from find_late_ranks(
        job,
        CAUSE,
        ActivityKind.DEBUGGER,
        LateMessage(
            "is in a debugger{at}",
            "are in a debugger{at}",
            "no rank stops for a debugger",
            "leave the debugger (c), and remove breakpoint() from the script",
        ),
    )


CAUSE = HangCause(
    "HG-102",
    __doc__,
    find=find_input_waits,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
