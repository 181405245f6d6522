"""Slurm: srun asks for more than this job has

srun could not start a step in the job ({reason}). It asks for more nodes, tasks, GPUs or memory
than the job has, or for a node outside the job. Or another step (the shell in which it runs, an
earlier srun) still holds them.

**Place:** the options of srun and sbatch

**Prove:** squeue --steps -j JOB && scontrol show job JOB

**Fix:** Request at most the resources that sbatch got. For a second step at the same time, use srun
--overlap, or divide the job's resources (--exact, --mem, --gpus per step).

**Source:** read: Slurm's step_ctx.c and its man page of srun
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.logs import (
    Fact,
    LogCause,
    LogEvidence,
    LogFinding,
    Pattern,
    RecordedLog,
)

BUSY = Fact(
    "step waits",
    Pattern(
        "step creation ",
        r"step creation (?:still|temporarily) disabled, retrying \((?P<reason>[^)]{1,80})\)",
    ),
)
CREATED = Fact("step created", Pattern("srun: Step created"))
REFUSED = Fact(
    "step refused",
    Pattern(
        "Unable to create step for job",
        r"Unable to create step for job \d{1,12}: (?P<reason>Requested node configuration is not available"
        r"|More processors requested than permitted"
        r"|Memory required by task is not available|Requested nodes are busy)",
    ),
)
UNALLOCATED = Fact(
    "step refused",
    Pattern(
        "Unable to allocate resources",
        r"Unable to allocate resources: (?P<reason>Requested node configuration is not available)",
    ),
)


def find_step(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find a step that Slurm refused, or one that never started."""
    known = evidence.facts
    waits = [] if known.of("step created") else known.of("step waits")
    for (reason,), line in [*known.of("step refused"), *waits][:1]:
        yield CAUSE.make_finding({"reason": reason}, [line])


CAUSE = LogCause(
    "LG-734",
    __doc__,
    find=find_step,
    facts=(BUSY, CREATED, REFUSED, UNALLOCATED),
    weight=84,
    recorded=(
        RecordedLog(
            "refused",
            (
                "srun: error: Unable to create step for job 17627941: Requested node "
                "configuration is not available"
            ),
        ),
        RecordedLog(
            "waits",
            "29: srun: Job 9479148 step creation still disabled, retrying (Requested nodes are busy)",
        ),
        RecordedLog(
            "waited, then started",
            (
                "srun: Job 55 step creation temporarily disabled, retrying (Requested nodes are busy)\n"
                "srun: Job 55 step creation still disabled, retrying (Requested nodes are busy)\n"
                "srun: Step created for StepId=55.1"
            ),
            heads=(),
        ),
    ),
)
