"""NCCL: a system call failed and the log does not say which

NCCL failed with '{detail}'. A line with NCCL WARN has the reason. If NCCL printed none, check the
usual ones: /dev/shm of the container is too small, or two ranks see different interfaces.

**Place:** the node of this log

**Prove:** run the job again with NCCL_DEBUG=WARN (or INFO with NCCL_DEBUG_SUBSYS=INIT,NET,ENV) and
pass that log to explain-log

**Fix:** Fix the error that the NCCL WARN line names.

**Source:** read: ProcessGroupNCCL's error texts
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-422",
    __doc__,
    examples=(
        (
            "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, "
            "unhandled system error (run with NCCL_DEBUG=INFO for details)"
        ),
    ),
    patterns=(
        Pattern(
            "NCCL error",
            r"NCCL error.{0,200}?(?P<detail>unhandled (?:system|cuda) error|internal error)",
        ),
        Pattern(
            "ncclSystemError: ",
            r"ncclSystemError: (?P<detail>System call \([^)]{1,60}\)[^\n.]{0,60} failed)",
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    is_pointer=True,
)
