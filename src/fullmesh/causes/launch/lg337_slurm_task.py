"""Slurm: a node could not start a task

A node of the step could not start its task ({detail}). Slurm's message does not name the reason: the
plugin of srun --mpi, a prolog, the container, cgroups, or the credential.

**Place:** the node of that task

**Prove:** on that node, run `journalctl -u slurmd --since -1h`, and compare `srun --mpi=list` with the
job's options

**Fix:** Correct the error in slurmd's log. Without MPI, try srun --mpi=none.

**Source:** read: Slurm's launch plugin
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-337",
    __doc__,
    examples=("srun: error: task 3 launch failed: Unspecified error",),
    patterns=(
        Pattern(
            " launch failed: ",
            r"srun: error: (?P<detail>[Tt]asks? [\d,-]{1,40} launch failed: [\w ]{5,80})",
        ),
        Pattern(
            "rolog",
            r"\bslurm\w*\b.{0,80}?error: .{0,80}(?P<detail>[Pp]rolog\w{0,10}(?: launch)? (?:failed|failure).{0,80})",
        ),
        Pattern(
            "rolog launch failure", r"srun: error: .{0,80}(?P<detail>[Pp]rolog launch failure)"
        ),
        Pattern(
            "task_prolog",
            r"error: .{0,60}(?P<detail>slurm task_prolog (?:\[[^\]]{1,120}\]|can not be executed).{0,120})",
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=60,
)
