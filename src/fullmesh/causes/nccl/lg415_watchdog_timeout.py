"""NCCL: a collective reached its timeout (watchdog)

{Who} waited in {call} until the watchdog's timeout{limit}.

**Place:** a rank that does not log this line, or that is at a lower number

**Prove:** pass the logs of all ranks to explain-log. With TORCH_FR_BUFFER_SIZE=2000
(TORCH_NCCL_TRACE_BUFFER_SIZE before torch 2.8) and TORCH_NCCL_DUMP_ON_TIMEOUT=1, torch records the
collectives of each rank.

**Fix:** Fix the rank that is behind. A longer timeout only helps if one rank needs that time for
work of its own (checkpoint, evaluation).

**Source:** hiyouga/LlamaFactory#7396, pytorch/pytorch#118369
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import (
    MOST_VALUES,
    ExplainOptions,
    Fields,
    LogCause,
    LogEvidence,
    LogFinding,
    Pattern,
    RecordedLog,
    Severity,
    join_first_items,
)
from fullmesh.causes.nccl.patterns import LATE


def derive_watchdog_call(fields: Fields, _options: ExplainOptions) -> Fields:
    """Add words for the call and its limit. A line may lack them."""
    operation, number = fields.get("operation", ""), fields.get("number", "")
    timeout = fields.get("timeout", "")
    return {
        **fields,
        "call": f"{operation} number {number}" if operation else "a collective",
        "limit": f" of {timeout} ms" if timeout else "",
    }


def describe_late_ranks(_finding: LogFinding, evidence: LogEvidence) -> str:
    """Describe the ranks for which no watchdog line exists."""
    facts = evidence.facts
    first: dict[str, int] = {}
    for (rank, number, _), _line in facts.of("late"):
        first[rank] = min(int(number), first.get(rank, int(number)))
    if not first:
        return ""
    low, high = min(first.values()), max(first.values())
    if low < high:
        slow = join_first_items([rank for rank, number in first.items() if number == low])
        return (
            f"Rank {slow} is at number {low}, others at {high}: if they are of one process group,"
            f" rank {slow} is behind."
        )
    sizes = [int(values[2]) for values, _ in facts.of("member")]
    # a rank without a full line may have a status
    told = first.keys() | {line.rank or values[1] for values, line in facts.of("status")}
    if len(told) > 1:
        sizes.append(max(map(int, told)) + 1)
    everyone = {str(rank) for rank in range(min(max(sizes, default=0), MOST_VALUES))}
    if silent := sorted(everyone - told, key=int):
        return f"Rank {join_first_items(silent)} logged no timeout: look there first."
    same = {(values[1], values[2]) for values, _ in facts.of("late")}
    if len(first) > 1 and len(same) == 1 and facts.ranks() <= first.keys():
        return (
            "All ranks with a log called it, so none of them is behind: the kernel of a GPU does not end, or the"
            " network between the ranks stopped."
        )
    return ""


def is_earlier_in_each_log(timeout: LogFinding, other: LogFinding) -> bool:
    """Return whether the timeout comes first in each log: it ended the ranks whose connections then closed."""
    return all(
        any(early.file == line.file and early.line < line.line for early in timeout.evidence)
        for line in other.evidence
    )


CAUSE = LogCause(
    "LG-415",
    __doc__,
    facts=(LATE,),
    describe=describe_late_ranks,
    derive=derive_watchdog_call,
    examples=(
        (
            "[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, "
            "NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for 600060 "
            "milliseconds before timing out."
        ),
    ),
    patterns=(
        Pattern(
            "caught collective operation timeout",
            r"\[Rank (?P<rank>\d+)\].{0,40}caught collective operation timeout: WorkNCCL\(SeqNum=(?P<number>\d+),"
            r" OpType=(?P<operation>\w+),.{0,120}?Timeout\(ms\)=(?P<timeout>\d+)",
        ),
        # without the rank, or cut
        Pattern(
            "caught collective operation timeout",
            r"^(?!.{0,400}\[Rank \d)(?P<rank>).{0,400}caught collective operation timeout"
            r"(?:: WorkNCCL\(SeqNum=(?P<number>\d+),"
            r" OpType=(?P<operation>\w+))?(?:.{0,120}?Timeout\(ms\)=(?P<timeout>\d+))?",
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    explains=(Explains(("LG-422",)), Explains(("LG-421",), is_earlier_in_each_log)),
    weight=60,
    recorded=(
        RecordedLog(
            "sigabrt after the watchdog",
            (
                "[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog "
                "caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, "
                "NumelIn=5056, NumelOut=5056, Timeout(ms)=600000) ran for 600026 milliseconds "
                "before timing out.\n"
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
                "============================================================\n"
                "train.py FAILED\n"
                "------------------------------------------------------------\n"
                "Failures:\n"
                "  <NO_OTHER_FAILURES>\n"
                "------------------------------------------------------------\n"
                "Root Cause (first observed failure):\n"
                "[0]:\n"
                "  time      : 2025-05-21_15:43:03\n"
                "  host      : node1\n"
                "  rank      : 0 (local_rank: 0)\n"
                "  exitcode  : -6 (pid: 14750)\n"
                "  error_file: <N/A>\n"
                "  traceback : Signal 6 (SIGABRT) received by PID 1\n"
                "============================================================\n"
                ""
            ),
            heads=("LG-415", "LG-308"),
        ),
    ),
)
