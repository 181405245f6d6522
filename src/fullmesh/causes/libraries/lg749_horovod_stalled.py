"""Horovod: some ranks do not take part in an operation

Ranks of Horovod wait for others, which did not submit a tensor. The lines below `Missing ranks:` name them.

**Place:** the missing ranks

**Prove:** on a missing rank: py-spy dump --pid PID

**Fix:** Find why the missing rank is behind (data, an exception, a branch that only some ranks take), and correct that.

**Source:** read: Horovod's stall_inspector.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-749",
    __doc__,
    examples=(
        (
            "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are "
            "waiting for remainder of ranks for more than 60 seconds."
        ),
    ),
    patterns=(Pattern("waiting for remainder of ranks for more than"),),
    severity=Severity.SYMPTOM,
    weight=50,
)
