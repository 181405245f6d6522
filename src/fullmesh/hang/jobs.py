"""Find the jobs in the answers of all nodes. A job has one owner, and each job is judged separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fullmesh.causes.hang.job import WARNING, HangFinding, JobSample
from fullmesh.hang import ask
from fullmesh.hang.ask import HangAnswer
from fullmesh.hang.judge import judge_job
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.hang import Launcher, NodeHang, Rank, SkippedProcesses

MOST_JOBS = 16  # to judge
# The time to judge a job grows with the pairs of a rank and a group or collective in which others wait.
MOST_PAIRS, OF_RANK = 1 << 22, 16
PLAUSIBLE = 8  # a job may exceed the limit if this many times more ranks answered or are planned
SHOWN = 4
Key = tuple[str, str]


@dataclass(frozen=True)
class QueriedJob:
    """A job of one account.

    Attributes:
        name, account: as the nodes report them. The account is "" if they do not.
        samples: its ranks, per sample.
    """

    name: str
    account: str
    samples: Sequence[Sequence[Rank]]

    @property
    def owner(self) -> str:
        """The account as part of a sentence."""
        return f" of account {self.account}" if self.account else ""

    def findings(self, stalled: float) -> list[HangFinding]:
        """Judge it."""
        return judge_job(self.samples, stalled)

    def newest(self) -> JobSample:
        """All ranks of the last sample."""
        return JobSample({one["rank"]: one for one in self.samples[-1]})


def make_job_key(rank: Rank, answer: NodeHang) -> Key:
    """Return the account and the job that a rank belongs to."""
    return rank.get("account", ""), rank.get("job") or (answer["jobs"] or [""])[0]


def is_launcher_of(launcher: Launcher, key: Key) -> bool:
    """Report whether a launcher may have started ranks of a job. A launcher without a name may."""
    account, job = key
    names = {launcher["job"], launcher["master"]} - {""}
    return launcher.get("account", account) == account and (not names or job in names)


def filter_by_job(answer: NodeHang, key: Key) -> NodeHang:
    """Return the part of an answer that is about one job."""
    return {
        **answer,
        "jobs": [key[1]],
        "ranks": [one for one in answer["ranks"] if make_job_key(one, answer) == key],
        "launchers": [one for one in answer.get("launchers", []) if is_launcher_of(one, key)],
    }


def is_plausible_size(plan: ClusterPlan, ranks: Sequence[Rank]) -> bool:
    """Report whether these ranks may say that their job is so large: a few could keep the judge busy for hours."""
    sample = JobSample({one["rank"]: one for one in ranks})
    waits = sum(not entry["retired"] for one in ranks for entry in one["entries"])
    known = max(sum(one["pid"] > 0 for one in ranks), plan["world_size"])
    pairs = sample.world * (OF_RANK + len(sample.groups) + waits)
    return pairs <= MOST_PAIRS or sample.world <= PLAUSIBLE * known


@dataclass
class JobPlacement:
    """The places of a job's ranks, and its world size."""

    places: set[tuple[str, int]] = field(default_factory=set)
    world: int = 0

    def order(self, plan: ClusterPlan) -> tuple[bool, int, int]:
        """Jobs of the plan's size first, then those on most nodes."""
        hosts = {host for host, _ in self.places}
        return self.world != plan["world_size"], -len(hosts), -len(self.places)


def find_job_keys(plan: ClusterPlan, answers: Sequence[HangAnswer]) -> list[Key]:
    """Find the jobs. Accounts alternate, so that no account's jobs all come first."""
    seen: dict[Key, JobPlacement] = {}
    for one in answers:
        for answer in one.looks:
            for rank in answer["ranks"]:
                known = seen.setdefault(make_job_key(rank, answer), JobPlacement())
                known.places.add((one.name, rank["rank"]))
                known.world = max(known.world, rank["world"])
    turns: Counter[str] = Counter()
    found: list[tuple[int, int, Key]] = []
    for key in sorted(seen, key=lambda key: (seen[key].order(plan), key)):
        found.append((turns[key[0]], len(found), key))
        turns[key[0]] += 1
    return [key for _, _, key in sorted(found)]


def group_answers_by_job(
    plan: ClusterPlan, answers: Sequence[HangAnswer]
) -> tuple[list[QueriedJob], list[str]]:
    """Sort the answers by job.

    Returns:
        Return the jobs to evaluate, and the names of those beyond the limit or without usable data.
    """
    keys = find_job_keys(plan, answers)
    found: list[QueriedJob] = []
    rest = [QueriedJob(name, account, ()) for account, name in keys[MOST_JOBS:]]
    for key in keys[:MOST_JOBS]:
        looks = [
            replace(one, looks=tuple(filter_by_job(answer, key) for answer in one.looks))
            for one in answers
        ]
        job = QueriedJob(key[1], key[0], ask.collect_samples(plan, looks))
        judged = all(is_plausible_size(plan, ranks) for ranks in job.samples)
        (found if judged else rest).append(job)
    return found, [f"{job.name}{job.owner}" for job in rest]


def find_disputed_ranks(
    answers: Iterable[HangAnswer], jobs: Iterable[QueriedJob]
) -> dict[int, list[str]]:
    """Return the ranks of some jobs that more than one node claims to run, with these nodes."""
    keys = {(job.account, job.name) for job in jobs}
    nodes: dict[int, set[str]] = {}
    for one in answers:
        for answer in one.looks:
            for rank in answer["ranks"]:
                if make_job_key(rank, answer) in keys:
                    nodes.setdefault(rank["rank"], set()).add(one.name)
    return {rank: sorted(names) for rank, names in sorted(nodes.items()) if len(names) > 1}


def find_left_out_processes(answers: Iterable[HangAnswer]) -> list[HangFinding]:
    """List the processes that the last answers leave out: one finding for each node and account."""
    found: list[HangFinding] = []
    for one in answers:
        by_account: dict[str, list[SkippedProcesses]] = {}
        for left in one.looks[-1].get("left_out", []) if one.looks else []:
            by_account.setdefault(left["account"], []).append(left)
        found += [
            _make_left_out_finding(one.name, account, ones) for account, ones in by_account.items()
        ]
    return found


def _make_left_out_finding(
    host: str, account: str, ones: Sequence[SkippedProcesses]
) -> HangFinding:
    count = sum(left["count"] for left in ones)
    pids = [left["pid"] for left in ones if left["pid"]][:SHOWN]
    who = f"account {account}" if account else "an account that the node does not name"
    many = f"{count} processes say that they are ranks or launchers and are"
    what = (
        f"{many if count > 1 else 'a process says that it is a rank or a launcher and is'} left out"
    )
    check = f"ps -o user,pid,args -p {','.join(map(str, pids))}" if pids else "fullmesh-hang"
    return HangFinding(
        "HG-152",
        f"{host}: {what} ({who}): {ones[0]['why']}",
        hosts=(host,),
        seen="; ".join(
            (f"process {left['pid']}: " if left["pid"] else f"{left['count']} more: ") + left["why"]
            for left in ones[: SHOWN + 1]
        ),
        expected="numbers and answers as torchrun, Open MPI, Slurm and torch write them",
        check=f"find their owner on {host}: {check}",
        fix="if it is your job, correct its variables and options (RANK, WORLD_SIZE, --nproc-per-node), then "
        "run it again",
        severity=WARNING,
    )


def number_job_file(path: Path, number: int) -> Path:
    """Name the file of a job: the path itself for the first, then ``NAME-2.SUFFIX`` and so on."""
    return path if number == 1 else path.with_stem(f"{path.stem}-{number}")
