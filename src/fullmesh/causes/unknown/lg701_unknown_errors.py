"""The log has errors that no rule knows

The log has errors that no rule of explain-log knows. The first ones of each rank are
shown.

**Prove:** read the lines before and after those shown, pass the logs of all ranks to explain-log, or search for the
message in the documentation and the issues of the program that printed it

**Fix:** Correct the error that the message names.
If other users may have the same problem, report it (issue template 'A cause that it does not name').

**Source:** read: the formats of Python, glog, NCCL, Slurm, Open MPI, UCX and the kernel
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, LogEvidence, LogFinding, RecordedLog, Severity


def describe_errors(finding: LogFinding, _evidence: LogEvidence) -> str:
    """Quote the first error, and what the program says about it. Values of a page would be shorter."""
    said = (finding.fields.get(name, "") for name in ("first", "advice", "libraries"))
    return " ".join(text for text in said if text)


CAUSE = LogCause(
    "LG-701",
    __doc__,
    severity=Severity.UNKNOWN,
    describe=describe_errors,
    recorded=(
        RecordedLog("an error of another library", "2026-01-01 10:00:01 ERROR the pipe is stuck"),
    ),
)
