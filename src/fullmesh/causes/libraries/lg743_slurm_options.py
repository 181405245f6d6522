"""Slurm: the options of a job are rejected

Slurm rejected the options of a job or step ({detail}). They contradict each other, ask for more
than a node, the partition or the account has, this version of Slurm needs another option, or the
shell runs inside a job, whose SLURM_ variables apply to the new job, too.

**Place:** the options of srun and sbatch, and the shell that starts them

**Prove:** in that shell: env | grep -E '^(SLURM|SBATCH|SRUN)_'; sbatch --test-only SCRIPT

**Fix:** Compare the options with `sinfo -Nel` and `scontrol show partition`. Set each number once
(nodes, tasks, CPUs, GPUs). Start the job from a shell that is not part of a job, or unset its
SLURM_ variables first. If only the binding to CPUs fails, use srun --cpu-bind=none.

**Source:** goodfire-ai/spd#955, Emmi-AI/noether#233, meta-pytorch/torchx#1100
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

# what the controller says about the options, not about the way to it
ANSWER = r"(?!Unable to contact|Socket timed out|Zero Bytes|Protocol auth)\w.{5,100}?(?: *$|\.)"
SLURM = r"\b(?:srun|sbatch|salloc): (?:fatal|error): "
CAUSE = LogCause(
    "LG-743",
    __doc__,
    examples=(
        (
            "srun: fatal: cpus-per-task set by two different environment variables "
            "SLURM_CPUS_PER_TASK=4 != SLURM_TRES_PER_TASK=cpu:8"
        ),
        "srun: error: Unable to satisfy cpu bind request",
        (
            "sbatch: error: Failed to validate job spec. --gpus-per-task or --tres-per-task used "
            "without either --gpus or -n/--ntasks is not allowed."
        ),
    ),
    patterns=(
        Pattern(
            "set by two different environment variables",
            SLURM + r"(?P<detail>[\w-]{1,40} set by two different environment variables)",
        ),
        Pattern(
            "Unable to satisfy cpu bind request",
            SLURM + r".{0,200}(?P<detail>Unable to satisfy cpu bind request)",
        ),
        Pattern(
            "CPU binding outside of job step allocation",
            SLURM + r"(?P<detail>CPU binding outside of job step allocation)",
        ),
        # what the controller answers to a job or allocation
        Pattern(
            "Batch job submission failed: ",
            SLURM + rf"Batch job submission failed: (?P<detail>{ANSWER})",
        ),
        Pattern(
            "Unable to allocate resources: ",
            SLURM + rf"Unable to allocate resources: (?P<detail>(?!Job/step already){ANSWER})",
        ),
        Pattern(
            "Unable to create step for job",
            SLURM + r"Unable to create step for job \d{1,12}: (?P<detail>Invalid generic resource)",
        ),
        # a site's own plugin of sbatch has other words
        Pattern(
            "sbatch: error: ",
            rf"\bsbatch: error: (?!spank|Batch job|.{{0,60}}(?:DNS|fetch|resolve))(?P<detail>[*! ]{{0,8}}{ANSWER})",
        ),
        Pattern(
            "can not be satisfied",
            SLURM
            + r"(?P<detail>\w{3,12} (?:count )?(?:per node |specification )?can not be satisfied)",
        ),
        Pattern("Failed to validate job spec", SLURM + r"(?P<detail>Failed to validate job spec)"),
        Pattern(
            "Job submit/allocate failed: ",
            SLURM + rf"Job submit/allocate failed: (?P<detail>{ANSWER})",
        ),
        Pattern(
            "unrecognized option '",
            r"\b(?:srun|sbatch|salloc): (?P<detail>unrecognized option '[^']{1,60}')",
        ),
        Pattern(" specification", SLURM + r"(?P<detail>Invalid --[\w-]{1,40} specification)"),
    ),
    explains=(Explains(("LG-304", "LG-329")),),
    weight=88,
    recorded=(
        RecordedLog(
            "a step inside another step",
            (
                "srun: error: CPU binding outside of job step allocation, allocated CPUs are: 0x0FFF.\n"
                "srun: error: Task launch for StepId=120986.0 failed on node node11: Unable to satisfy "
                "cpu bind request\n"
                "srun: error: Application launch failed: Unable to satisfy cpu bind request\n"
                "srun: Job step aborted"
            ),
            folded=("LG-329",),
        ),
    ),
)
