"""HCCL: a rank waited in vain for another during an operation

HCCL (Ascend) waited for a notification of {peer} during a collective operation, which did not come within
HCCL_EXEC_TIMEOUT. That rank ended, is slower, or called another operation.

**Place:** {peer}, or the rank that logs a different error, or no error

**Prove:** pass the logs of all ranks to explain-log, and compare the times of the ranks' first errors

**Fix:** Find the rank that failed first, and correct its error. If all ranks have this error, give each the same number
of steps, or raise HCCL_EXEC_TIMEOUT on all ranks.

**Source:** InternLM/lmdeploy#3354, vllm-project/vllm-ascend#1443
"""

from __future__ import annotations

from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, Pattern, Severity


def derive_awaited_rank(fields: Fields, _options: ExplainOptions) -> Fields:
    """Name the rank, which HCCL often does not know."""
    return {**fields, "peer": f"rank {fields['peer']}" if fields["peer"] else "another rank"}


CAUSE = LogCause(
    "LG-746",
    __doc__,
    examples=(
        (
            "EI0002: [PID: 1] 2025-03-26-13:49:01.670.614 The wait execution of the Notify register times out. "
            "Reason: The Notify register has not received the Notify record from remote rank: [3]."
        ),
    ),
    patterns=(
        Pattern(
            "EI0002",
            r"EI0002\b(?:.{0,250}?from remote rank:? ?\[(?P<peer>\d{1,7})\])?",
        ),
    ),
    derive=derive_awaited_rank,
    severity=Severity.SYMPTOM,
    weight=58,
)
