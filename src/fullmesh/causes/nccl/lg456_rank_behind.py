"""NCCL: ranks are behind: they never called the collective in which the others waited

{Behind} never called {operation} number {number} of group {group}, in which {waiting} waited until
the watchdog's timeout. The last collective of {behind} was number {last}.

**Place:** {behind}

**Prove:** read what the rank did before the timeout, in its own log. ./fullmesh hang shows the line
of code of each rank, if you run it while the job still hangs.

**Fix:** Remove what delays the rank (data, a checkpoint, a wait for another group), or the branch
of the program that only some ranks take. All ranks must call the same collectives in the same order.

**Source:** torch ProcessGroupNCCL.cpp 2.4 to 2.13, and two H200 runs with a rank asleep
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import (
    Fact,
    LogCause,
    LogEvidence,
    LogFinding,
    LogLine,
    Pattern,
    RecordedLog,
    Severity,
    join_first_items,
)
from fullmesh.causes.nccl.patterns import LATE

# torch writes it when the watchdog ends the job. Its lines about progress in between are of different times.
STATUS = Fact(
    "status",
    Pattern(
        "ast enqueued",
        r"\[(?:PG (?P<group>[^\]\n]{1,80}?) )?Rank (?P<rank>\d{1,7})\] .{0,60}?"
        r"(?:dump signal.{0,200}?|(?:detected by watchdog at work(?: sequence id)?|Timeout at NCCL work):"
        r" (?P<number>\d{1,15})\b.{0,40}?)"
        r"[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,15}), last completed",
    ),
)


@dataclass
class GroupStatus:
    """The collectives of one group when the watchdog ended the job.

    Attributes:
        waiting: rank -> (the number in which it waited, its line).
        last: rank -> (the highest number that it called, its line).
    """

    waiting: dict[str, tuple[int, LogLine]] = field(default_factory=dict)
    last: dict[str, tuple[int, LogLine]] = field(default_factory=dict)

    def list_ranks_behind(self) -> tuple[int, list[str]]:
        """Return the first number in which a rank waited, and the ranks that never called it."""
        first = min((number for number, _ in self.waiting.values()), default=0)
        return first, [rank for rank, (number, _) in self.last.items() if number < first]


def group_statuses(evidence: LogEvidence) -> dict[str, GroupStatus]:
    """Collect the status of each group: its name -> what its ranks logged."""
    groups: dict[str, GroupStatus] = {}
    for (group, rank, number, enqueued), line in evidence.facts.of("status"):
        one = groups.setdefault(group.rpartition("GUID ")[2] or "0", GroupStatus())
        # a group has its own numbers of ranks; the start of the line has the number in the job
        name = line.rank or rank
        if number and int(number) <= one.waiting.get(name, (int(number), line))[0]:
            one.waiting[name] = int(number), line
        if int(enqueued) >= one.last.get(name, (int(enqueued), line))[0]:
            one.last[name] = int(enqueued), line
    return groups


def find_ranks_behind(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find the group in which ranks never called the collective that others waited in."""
    groups = group_statuses(evidence)
    elsewhere = {
        rank: f"{name} number {number}"
        for name, one in groups.items()
        for rank, (number, _) in one.waiting.items()
    }
    found = [(name, one) for name, one in groups.items() if one.list_ranks_behind()[1]]
    # a rank that waits in another group is behind because of that group's ranks
    found.sort(key=lambda item: sum(rank in elsewhere for rank in item[1].list_ranks_behind()[1]))
    for name, one in found[:1]:
        number, behind = one.list_ranks_behind()
        waiting = [rank for rank, (at, _) in one.waiting.items() if at == number]
        operations = {
            operation
            for (rank, late, operation), line in evidence.facts.of("late")
            if int(late) == number and (line.rank or rank) in waiting
        }
        hint = ""
        if held := sorted({elsewhere[rank] for rank in behind if rank in elsewhere}):
            hint = f"Meanwhile it waited in group {held[0]}: the groups wait for each other."
        elif len(behind) > len(waiting):
            hint = f"It is also possible that {name_ranks(waiting)} called one collective too many."
        lines = [one.last[rank][1] for rank in behind] + [one.waiting[rank][1] for rank in waiting]
        fields = {
            "behind": name_ranks(behind),
            "Behind": name_ranks(behind).capitalize(),
            "waiting": name_ranks(waiting),
            "operation": operations.pop() if len(operations) == 1 else "the collective",
            "number": str(number),
            "group": name,
            "last": join_first_items([str(one.last[rank][0]) for rank in behind]),
            "hint": hint,
        }
        yield CAUSE.make_finding(fields, lines)


def describe_other_reading(finding: LogFinding, _evidence: LogEvidence) -> str:
    """Tell what the same lines can also mean."""
    return finding.fields["hint"]


def name_ranks(ranks: list[str]) -> str:
    """Name some ranks in a sentence."""
    return f"rank{'s' if len(ranks) > 1 else ''} {join_first_items(ranks)}"


CAUSE = LogCause(
    "LG-456",
    __doc__,
    find=find_ranks_behind,
    describe=describe_other_reading,
    facts=(LATE, STATUS),
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=70,
    explains=(Explains(("LG-112", "LG-415", "LG-421", "LG-422")),),
    recorded=(
        RecordedLog(
            "two of eight ranks wait in Gloo",
            (
                "[rank0]:[E810 03:04:11.562692551 ProcessGroupNCCL.cpp:1858] [PG ID 0 PG GUID 0(default_pg) Rank 0] "
                "Received a dump signal due to a collective timeout from  rank 1 and we will try our best to dump the "
                "debug info. Last enqueued NCCL work: 77, last completed NCCL work: 77.This is most likely caused by "
                "incorrect usages of collectives\n"
                "[rank4]:[E810 03:04:11.562661853 ProcessGroupNCCL.cpp:1858] [PG ID 0 PG GUID 0(default_pg) Rank 4] "
                "Received a dump signal due to a collective timeout from  rank 1 and we will try our best to dump the "
                "debug info. Last enqueued NCCL work: 77, last completed NCCL work: 77.This is most likely caused by "
                "incorrect usages of collectives\n"
                "[rank1]:[E810 03:04:11.061727749 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective "
                "operation timeout: WorkNCCL(SeqNum=78, OpType=BROADCAST, NumelIn=80, NumelOut=80, Timeout(ms)=600000) "
                "ran for 600096 milliseconds before timing out.\n"
                "[rank1]:[E810 03:04:11.063313477 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank 1]  "
                "failure detected by watchdog at work sequence id: 78 PG status: last enqueued work: 79, last "
                "completed work: 77\n"
                "[rank2]:[E810 03:04:10.940346318 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank 2]  "
                "failure detected by watchdog at work sequence id: 78 PG status: last enqueued work: 79, last "
                "completed work: 77\n"
                "[rank3]:[E810 03:04:10.941761910 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank 3]  "
                "failure detected by watchdog at work sequence id: 78 PG status: last enqueued work: 79, last "
                "completed work: 77\n"
                "[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed "
                "by peer [10.0.7.7]:57000"
            ),
            folded=("LG-112", "LG-415"),
        ),
        RecordedLog(
            "torch 2.6 logs the status of only one rank",
            (
                "[rank3]:[E227 16:30:43.526290891 ProcessGroupNCCL.cpp:1785] [PG ID 2 PG GUID 3 Rank 3] Exception "
                "(either an error or timeout) detected by watchdog at work: 32, last enqueued NCCL work: 32, last "
                "completed NCCL work: 31.\n"
                "[rank3]:[E227 16:30:43.526301625 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective "
                "operation timeout: WorkNCCL(SeqNum=32, OpType=ALLREDUCE, NumelIn=80, NumelOut=80, "
                "Timeout(ms)=600000) ran for 600027 milliseconds before timing out."
            ),
            heads=("LG-415",),
        ),
    ),
)
