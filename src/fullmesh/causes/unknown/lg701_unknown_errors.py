"""The log has errors that no rule knows

The log has errors that no rule of explain-log knows. The first ones of each rank are
shown.{first}{advice}{libraries}

**Prove:** read the lines before and after those shown, pass the logs of all ranks to explain-log, or search for the
message in the documentation and the issues of the program that printed it

**Fix:** Correct the error that the message names.
If other users may have the same problem, report it (issue template 'A cause that it does not name').

**Source:** read: the formats of Python, glog, NCCL, Slurm, Open MPI, UCX and the kernel
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, RecordedLog, Severity

CAUSE = LogCause(
    "LG-701",
    __doc__,
    severity=Severity.UNKNOWN,
    recorded=(
        RecordedLog(
            "another unknown argument",
            "train.py: error: unrecognized arguments: --ranks=0",
        ),
    ),
)
