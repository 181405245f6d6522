"""A program is missing on a node

A node could not start {detail}: the program is not installed there, not in the PATH of that
account, or not in the image.

**Place:** the image or environment of that node

**Prove:** on that node, as the job's account: type PROGRAM && echo $PATH

**Fix:** Use the same image or environment on all nodes, and start the program by its full path.

**Source:** read: Slurm, runc, Open MPI and the shell
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-330",
    __doc__,
    examples=(
        "slurmstepd: error: execve(): torchrun: No such file or directory",
        'exec: "torchrun": executable file not found in $PATH',
    ),
    patterns=(
        Pattern("execve(): ", r"execve\(\): (?P<detail>\S{1,120}): No such file or directory"),
        Pattern(
            "executable file not found in $PATH",
            r'exec: "(?P<detail>[^"]{1,120})": executable file not found',
        ),
        Pattern(
            ": command not found",
            (
                r"(?:bash|sh|ksh|zsh): (?:line \d{1,6}: )?(?P<detail>(?:torchrun|python[\d.]{0,5}|srun"
                r"|mpirun|ray|vllm|deepspeed|accelerate|nvidia-smi)): command not found"
            ),
        ),
    ),
    weight=86,
)
