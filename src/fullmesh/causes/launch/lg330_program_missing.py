"""A program is missing on a node

A node could not start {detail}: it is not installed there, not in the PATH of that account, not in
the image, or not executable.

**Place:** the image or environment of that node

**Prove:** on that node, as the job's account: type PROGRAM && echo $PATH

**Fix:** Use the same image or environment on all nodes, and start the program by its full path.

**Source:** read: Slurm, runc, Open MPI and the shell
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, match_missing_program
from fullmesh.causes.system.lg537_compiler_missing import COMPILERS

PROGRAMS = (
    r"torchrun|python[\d.]{0,5}|srun|sbatch|mpirun|mpiexec|hydra_pmi_proxy|orted|prted|pdsh|ssh|sshd|ray|vllm|sglang"
    r"|deepspeed|accelerate|uv|conda|mamba|docker|podman|enroot|apptainer|singularity"
)
CAUSE = LogCause(
    "LG-330",
    __doc__,
    examples=(
        "slurmstepd: error: execve(): torchrun: No such file or directory",
        'exec: "torchrun": executable file not found in $PATH',
        'exec: "/app/run.sh": stat /app/run.sh: no such file or directory: unknown',
    ),
    patterns=(
        Pattern(
            "execve(): ",
            r"execve\(\): (?P<detail>\S{1,120}): (?:No such file|Permission denied|Exec format)",
        ),
        Pattern(
            "executable file not found in $PATH",
            r'"(?P<detail>[^"]{1,120})": executable file not found',
        ),
        # runc, for a program that is named by its path
        Pattern(
            'exec: "',
            (
                r'exec: "(?P<detail>[^"]{1,120})": (?:stat \S{1,120}: no such file or directory'
                r"|permission denied)"
            ),
        ),
        # crun
        Pattern(
            "executable file `",
            r"executable file `(?P<detail>[^`']{1,120})[`'] not found in \$PATH",
        ),
        Pattern(
            "find the specified executable file",
            r"unable to find (?P<detail>the specified executable file)",
        ),
        Pattern(
            ": No such file or directory",
            r"(?:bash|sh|ksh|zsh): (?:line \d{1,6}: )?"
            rf"(?!\S{{0,400}}/{COMPILERS}:)(?P<detail>(?:/[\w.+-]{{1,80}}){{1,12}}): No such file",
        ),
        # a shebang, and a script without the right to run
        Pattern(
            "env: ",
            r"\benv: \W?(?P<detail>[\w.+-]{1,40})\W?: (?:No such file or directory|Permission denied)",
        ),
        Pattern(
            ": Permission denied",
            r"(?:bash|sh|ksh|zsh): (?:line )?(?:\d{1,6}: )?(?P<detail>[\w./+-]{1,200}): Permission denied\s*$",
        ),
        # DeepSpeed
        Pattern("' not installed.", r"rror: launcher '(?P<detail>\w{1,40})' not installed"),
        Pattern("HYDU_create_process", r"execvp error on file (?P<detail>\S{1,120})"),
        Pattern(
            "as it could not access or execute an executable",
            r"(?P<detail>the specified application)",
        ),
        Pattern(
            ": No module named ", r"\bpython[\d.]{0,5}: (?P<detail>No module named [\w.]{1,80})"
        ),
        *match_missing_program(PROGRAMS),
    ),
    survivable=True,
    weight=86,
)
