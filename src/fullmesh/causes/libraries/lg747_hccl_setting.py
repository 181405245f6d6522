"""HCCL: a setting or a call does not fit

HCCL (Ascend) refused what a rank gave it: {detail}.

**Place:** the rank of this log, or its settings

**Prove:** env | grep -E '^(HCCL|ASCEND|RANK)' on every rank, and compare

**Fix:** Correct the value that the message names, the same on all ranks.

**Source:** read: Huawei's list of HCCL's error codes
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-747",
    __doc__,
    examples=(
        (
            "EI0001: [PID: 1] 2025-04-08-18:07:20.444.436 Environment variable [HCCL_IF_IP] is invalid. Reason: the "
            "address is not on this host"
        ),
        "EI0004: The ranktable or rank is invalid,Reason:[The ranktable config is invalid].",
        (
            "EI0005: The arguments for collective communication are inconsistent between ranks: tag "
            "[AllReduce_1], parameter [count], local [1024], remote [2048]"
        ),
    ),
    patterns=tuple(
        Pattern(
            code,
            rf"{code}\b(?:: \[PID: \d{{1,8}}\] [\d:.-]{{1,40}}|\)?:?) ?(?P<detail>[^.].{{4,159}})",
        )
        for code in ("EI0001", "EI0003", "EI0004", "EI0005", "EI0014")
    ),
    explains=(Explains(("LG-722", "LG-746")),),
    weight=84,
    recorded=(
        RecordedLog(
            "two ranks with different counts, and a third that waits",
            (
                "EI0005: [PID: 1] 2025-03-26-13:49:01.670.614 The arguments for collective communication are "
                "inconsistent between ranks: tag [AllReduce_1], parameter [count], local [1024], remote [2048]\n"
                "EI0002: [PID: 2] 2025-03-26-14:19:01.670.614 The wait execution of the Notify register times out. "
                "Reason: The Notify register has not received the Notify record from remote rank: [unknown]."
            ),
            folded=("LG-746",),
        ),
    ),
)
