"""Open MPI: a job has more processes than the hosts have slots

mpirun was asked for {number} processes and may start fewer: the host file or --host has no slots=N
for a node, or Slurm allocated fewer tasks.

**Place:** the command line of mpirun, its host file or Slurm's allocation

**Prove:** in the allocation: env | grep -E '^SLURM_(NTASKS|TASKS_PER_NODE|NNODES)=' (without Slurm,
read the host file)

**Fix:** Give each node one slot per GPU (NODE slots=8 in the host file, or --host NODE:8), and the
allocation as many tasks (--ntasks-per-node).

**Source:** read: Open MPI's and PRRTE's help texts
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-733",
    __doc__,
    examples=(
        "There are not enough slots available in the system to satisfy the 16",
        "There are not enough slots available in the system to satisfy the 4 slots",
    ),
    patterns=(
        Pattern(
            "There are not enough slots available",
            r"not enough slots available in the system to satisfy the (?P<number>\d{1,7})",
        ),
    ),
    weight=92,
)
