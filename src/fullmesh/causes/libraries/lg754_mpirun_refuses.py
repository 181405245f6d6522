"""Open MPI: mpirun refuses to start the program

mpirun did not start the program ({detail}).

**Place:** the command line of mpirun, or its user

**Prove:** id -un; nproc; mpirun --version

**Fix:** In a container whose only user is root, add --allow-run-as-root. If it binds more processes
than CPUs, add --bind-to none, or give the container all CPUs of the node.

**Source:** read: Open MPI's and PRRTE's help texts
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-754",
    __doc__,
    examples=(
        "mpirun has detected an attempt to run as root.",
        "A request was made to bind to that would result in binding more",
    ),
    patterns=(
        Pattern("detected an attempt to run as root", r"(?P<detail>an attempt to run as root)"),
        Pattern(
            "A request was made to bind to that",
            r"(?P<detail>A request was made to bind)",
        ),
        Pattern(
            "not allow you to run as root",
            r"(?P<detail>Open MPI will not allow you to run as root)",
        ),
    ),
    weight=90,
)
